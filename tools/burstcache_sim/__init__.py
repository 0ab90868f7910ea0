"""Simulators, traces and bills for decisions before a deployment. The same inputs and seed produce the same bytes."""
