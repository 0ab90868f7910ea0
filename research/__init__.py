"""Policies that were tried and are not in the product: classes over the simulator's own protocol, and one runner."""
