"""Read-only questions about a running system, answered with dataclasses: what commands and dashboards show."""
