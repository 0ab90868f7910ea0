"""moto as the local cloud's AWS, with patches for moto, missing resource types, and an HTTP server."""
