"""How long a property test searches for a counterexample."""

from __future__ import annotations

from hypothesis import settings

_FULL = 100  # examples of a test that does not say how many: hypothesis's own default
_LEAST = 10


def search(examples: int) -> settings:
    """Return the settings of a search among that many examples, or among fewer where the profile has fewer."""
    share = settings().max_examples / _FULL
    return settings(max_examples=max(_LEAST, round(examples * share)), print_blob=True)
