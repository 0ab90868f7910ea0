"""The words after `burstcache sim`, and `burstcache advise`."""
