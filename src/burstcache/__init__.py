"""Burstcache: a read cache in front of S3 that exists only while it is needed."""

__version__ = "0.1.0"
