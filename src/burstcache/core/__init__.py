"""The core rules: pure functions and values, without I/O, clock, randomness or AWS."""
