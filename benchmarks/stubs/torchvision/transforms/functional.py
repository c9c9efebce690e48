"""The names that streaming imports and the benchmark never uses."""

from typing import Any


def to_tensor(image: Any) -> Any:
    """Never called: no contender reads images."""
    raise NotImplementedError(f"the torchvision stub cannot convert {type(image).__name__}")
