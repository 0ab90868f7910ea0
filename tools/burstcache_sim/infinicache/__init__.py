"""A reproduction of InfiniCache's evaluation: formulas, costs over 50 hours, availability and break-even rate."""
