"""Where the viewer is."""

from __future__ import annotations

from gristmill.show.terminal import line


def show_address(path: str, address: str) -> None:
    """The address on a line of its own, so that terminals make it a link."""
    line(f"{path} can be seen on this machine, until Ctrl-C, at")
    line(address)
