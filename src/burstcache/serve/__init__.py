"""One request, one answer: the reader, and how it asks each tier (s3, express, lambda, redis)."""
