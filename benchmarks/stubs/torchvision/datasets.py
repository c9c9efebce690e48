"""The names that streaming imports and the benchmark never uses."""


class VisionDataset:
    """A base class that is never instantiated here."""
