"""Tests against second engines of AWS's APIs, neither moto's nor ours: `make test-engines`."""
