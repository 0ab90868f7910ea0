"""Reports on a simulation: tables, pictures and a page."""
