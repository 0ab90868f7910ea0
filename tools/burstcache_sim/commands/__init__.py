"""The commands of `burstcache sim`, `burstcache research` and `burstcache advise`."""
