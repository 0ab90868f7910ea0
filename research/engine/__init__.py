"""Compiled engines of this package's policies, a module per policy.

Compiled code is cached on disk until its own file, or any engine of `burstcache_sim`, changes. So a module here takes
compiled functions and constants from itself and from `burstcache_sim` alone.
"""
