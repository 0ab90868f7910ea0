"""The relay's certificate: a function with its own package, since no other needs a cryptography library."""
