"""Option types, exit codes and text: what the commands of all tools share. It imports `burstcache.core` only."""
