"""IAM, as far as the stack's own roles go: each call of a function, a machine or an instance needs a statement."""
