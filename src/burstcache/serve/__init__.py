"""Serving of requests: the reader, the writer, and the reader's tiers (Redis, Lambda, S3 Express, S3)."""
