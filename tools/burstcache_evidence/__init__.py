"""Evidence from an AWS account: small stacks of every kind, checked, measured and deleted by one command."""
