"""Read-only queries of a running system for commands and dashboards. Results are dataclasses."""
