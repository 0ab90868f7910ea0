"""Places that keep results for several processes: bytes by key, one module per kind of place."""
