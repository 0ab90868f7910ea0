"""The checks of "Not tried on AWS" (`docs/operate/operations.md`), one for each item."""
