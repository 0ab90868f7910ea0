"""Bills of a trace for this system and its competitors."""
