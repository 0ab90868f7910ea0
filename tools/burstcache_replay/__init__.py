"""Replays a trace against a live stack: on schedule, whatever the stack does."""
