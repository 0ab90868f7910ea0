"""Tools to choose policies at equal hit ratios, parameters for a log, and whether to deploy at all."""
