"""The simulated world: a readable implementation of the rules in `docs/understand/simulation.md`."""
