"""The exact optimum of a trace of one key."""
