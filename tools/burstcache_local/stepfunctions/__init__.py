"""A subset of Step Functions that this project's state machines use, on an event loop's clock."""
