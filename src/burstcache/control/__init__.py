"""The control plane: what the scheduler, the cache function, Redis control and the janitor do."""
