"""The rules of the pool: which slices an object has, who holds their chunks, what a member drops."""
