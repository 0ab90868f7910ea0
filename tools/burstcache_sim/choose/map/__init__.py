"""Where Burstcache is the best buy: over loads of every kind, next to what else one could buy."""
