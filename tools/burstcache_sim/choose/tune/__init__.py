"""The search that tunes a policy's parameters for a log."""
