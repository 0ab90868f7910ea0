"""Whether to deploy this for a log, and how."""
