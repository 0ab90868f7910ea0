"""Custom resources of the stack. They have a package of their own, since no other function needs `cryptography`."""
