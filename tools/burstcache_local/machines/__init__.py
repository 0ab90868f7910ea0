"""The processes that stand for machines: Redis nodes, the relay, their network."""
