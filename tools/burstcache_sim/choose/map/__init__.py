"""The map of loads for which Burstcache is the best buy."""
