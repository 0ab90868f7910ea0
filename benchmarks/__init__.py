"""What is fast, measured against what else; the results stand in docs/evidence/measurements.md."""
