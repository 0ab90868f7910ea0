"""The rules of the pool: slices and their chunks, placement on members, admission, eviction and redundancy."""
