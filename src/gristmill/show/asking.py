"""What `inspect` may be asked about what: an option that says nothing about the thing shown is refused, not ignored."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from gristmill.core.errors import ConfigError

_ABOUT = {"step": "a plan", "until": "a plan", "plan": "a checkpoint", "doc": "a store or a plan",
          "dtype": "a token file", "eos": "a token file"}  # fmt: skip


def refuse_options(chosen: argparse.Namespace, shown: str, allowed: Sequence[str]) -> None:
    """Refuse the options of `inspect` that are not about `shown` ("a plan")."""
    for name, about in _ABOUT.items():
        if name not in allowed and getattr(chosen, name) is not None:
            raise ConfigError(f"--{name} asks about {about}, and {chosen.path} is {shown}.")
