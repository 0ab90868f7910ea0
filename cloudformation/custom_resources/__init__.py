"""Custom resources of the stack, in a package of their own, since no other function needs `cryptography`."""
