"""The steps that a run takes in each stack. A step returns its findings as JSON and may be repeated."""
