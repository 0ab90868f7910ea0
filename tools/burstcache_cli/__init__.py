"""The command-line interface `burstcache`, which shows and operates local and deployed stacks."""
