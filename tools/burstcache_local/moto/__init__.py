"""moto as the local cloud's AWS: the repairs it needs, the resources it lacks, and the server in front of it."""
