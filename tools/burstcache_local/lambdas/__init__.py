"""The local Lambda service, with execution environments that run AWS's own runtime client."""
