"""The local cloud, which runs the template on one machine, without Docker or AWS."""
