"""The search for the best parameters."""
