"""One line on stderr that says what is being measured now."""

from rich.console import Console
from rich.status import Status


class Progress:
    """A line that changes in place on a terminal, and is silent elsewhere."""

    def __init__(self) -> None:
        self.status = Status("starting", console=Console(stderr=True))

    def say(self, text: str) -> None:
        """Replace the line."""
        self.status.update(text)

    def __enter__(self) -> "Progress":
        """Show the line."""
        self.status.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Take the line away."""
        self.status.stop()
