"""The policies, a file each. Nothing outside this package knows them by name."""
