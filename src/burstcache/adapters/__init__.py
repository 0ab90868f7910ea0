"""Adapters: all I/O with AWS, Redis and the relay, with one module per service or kind of item."""
