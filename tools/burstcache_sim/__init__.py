"""Know before you deploy: traces, simulators, bills. Same inputs, same seed: same bytes out."""
