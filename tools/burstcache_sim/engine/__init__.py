"""Compiled engines of the simulator. Tests compare every field of their results with the readable simulator's."""
