"""One thin module per Lambda function: event in, one call, answer out."""

from burstcache.logs import log_structured_lines

log_structured_lines()
