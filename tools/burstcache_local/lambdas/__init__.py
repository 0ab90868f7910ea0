"""The local Lambda service: execution environments under AWS's runtime client."""
