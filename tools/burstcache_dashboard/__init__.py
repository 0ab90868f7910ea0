"""The dashboard: a page, served from a person's machine, that shows a stack and changes nothing."""
