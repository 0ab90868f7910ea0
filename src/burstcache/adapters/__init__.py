"""Does: what the functions ask of AWS, one module per service or item family."""
