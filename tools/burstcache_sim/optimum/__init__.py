"""The exact optimum for a trace of one key."""
