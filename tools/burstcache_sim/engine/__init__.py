"""Compiled simulators, held to the readable ones in every field of the result."""
