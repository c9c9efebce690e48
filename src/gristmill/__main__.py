"""`python -m gristmill`: the command line, where its script is not on the path."""

from __future__ import annotations

from gristmill.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
