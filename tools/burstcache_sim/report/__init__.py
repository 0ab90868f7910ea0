"""What a person sees of a simulation: tables, pictures, a page."""
