"""A reproduction of the thesis's evaluation: published values next to the simulator's for the same workloads."""
