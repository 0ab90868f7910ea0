"""Advice by `burstcache advise`: whether and how to deploy Burstcache for a log."""
