"""Step Functions for what this project's machines use, on the clock of an event loop."""
