"""Policies that judge each key by itself, over the simulator's protocol. `burstcache sim` does not offer them."""
