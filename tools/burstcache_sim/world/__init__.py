"""The readable simulator: the rules of `docs/understand/simulation.md`, written to be read."""
