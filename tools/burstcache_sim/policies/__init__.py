"""Policies, one module each. No other package refers to a policy by name."""
