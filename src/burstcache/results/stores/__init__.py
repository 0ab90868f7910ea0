"""Stores of results that several processes share: bytes by key, one module per kind of store."""
