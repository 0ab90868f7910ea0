"""Measurements of speed, cost and robustness; the results are in `docs/evidence/measurements.md`."""
