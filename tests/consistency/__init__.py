"""Consistency: histories of reads and writes through all states of keys and nodes, and their checkers."""
