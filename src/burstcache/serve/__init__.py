"""How the proxy asks each tier (s3, lambda, redis), and the relay's client."""
