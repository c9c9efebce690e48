"""The user's own browser, where there is one that has a window."""

from __future__ import annotations

import os
import sys
import webbrowser


def open_browser(address: str) -> None:
    """Show an address; where nothing has windows, a browser in the terminal would take it over, and none is opened."""
    if sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(address)
