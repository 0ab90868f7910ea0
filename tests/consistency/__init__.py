"""Histories of reads and writes through every state of keys and nodes, and what checks them. `make consistency`."""
