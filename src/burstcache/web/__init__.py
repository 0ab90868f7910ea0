"""What HTTP means for one read: front doors, keys, ranges, conditions, answers. No I/O, no AWS."""
