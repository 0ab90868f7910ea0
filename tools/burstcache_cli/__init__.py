"""Shows a stack, local or deployed, and operates it by hand: what the commands of `burstcache` do."""
