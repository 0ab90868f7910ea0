"""The relay's certificate: a function of its own package, since no other one needs a library of cryptography."""
