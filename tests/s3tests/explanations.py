"""Explanations of tests that an endpoint with one identity cannot pass, by patterns of their names."""

from __future__ import annotations

EXPLANATIONS: dict[str, str] = {}
