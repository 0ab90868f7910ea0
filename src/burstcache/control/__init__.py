"""The control plane: scheduler, cache function, Redis control, janitor, origin writes, self-tests and the pool."""
