"""Web semantics: HTTP reads and writes (front doors, keys, ranges, conditions, responses). No I/O, no AWS."""
