"""InfiniCache's evaluation, reproduced: formulas, the costs of 50 hours, availability, where its cost overtakes."""
