"""Traces that are generated from a seed or read from access logs."""
