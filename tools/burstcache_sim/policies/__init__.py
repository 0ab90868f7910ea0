"""The policies, each in a module of its own, behind one protocol and one registry."""
