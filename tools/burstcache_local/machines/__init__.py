"""Machines as local processes: Redis nodes, the relay and their network."""
