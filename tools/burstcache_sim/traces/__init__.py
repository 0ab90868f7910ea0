"""Traces: made from a seed, or read from access logs."""
