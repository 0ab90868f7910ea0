"""The environment of each function as a typed object, read once at start, so a missing variable is an error then.

A module for each, named as its handler is, and for each program that reads a stack's: a function imports its own alone.
Defaults live in template.yaml and nowhere else.
"""
