"""Choosing: policies at the same share of hits, parameters for a log, whether to deploy at all."""
