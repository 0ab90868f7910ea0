"""The thesis's evaluation, reproduced: what it published, what the simulator gives for the same workloads."""
