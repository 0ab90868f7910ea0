"""The simulated pool: members, reclaims, warm-ups, backups. `burstcache.core.pool` places and evicts chunks."""
