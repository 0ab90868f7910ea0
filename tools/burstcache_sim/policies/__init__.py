"""Which policies there are, a file each. Nothing outside this package knows them by name."""
