"""IAM for the stack's own roles. Policies must allow each call from functions, state machines and instances."""
