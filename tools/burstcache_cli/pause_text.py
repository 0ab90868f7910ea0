"""The pause text that the commands which show a stack begin with."""

from __future__ import annotations

from burstcache.core.rows import Pause
from burstcache_terminal.text import shown_text, time_text


def pause_text(pause: Pause) -> str:
    """Format a pause, with the command that ends the pause."""
    until = f" until {time_text(pause.until_us)}" if pause.until_us else ""
    return f"paused since {time_text(pause.since_us)}{until}: {shown_text(pause.reason)}; `burstcache resume` ends that"


def below_pause(pause: Pause | None, text: str) -> str:
    """Return the text of a command, below the pause if there is one."""
    return f"{pause_text(pause)}\n\n{text}" if pause else text
