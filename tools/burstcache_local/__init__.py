"""The local cloud: the same template on one machine, without Docker and without AWS."""
