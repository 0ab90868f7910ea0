"""The handlers: one thin module per Lambda function, which maps an event to one call."""

from burstcache.logs import log_structured_lines

log_structured_lines()
