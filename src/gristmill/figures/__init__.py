"""What stores, plans, documents and this machine come to in numbers: a screen, a report and `--json` say the same.

In: stores, plans and checkpoints, opened or by their paths.
Out: frozen dataclasses and dicts of plain values, none of them formatted.
Promise: whoever shows figures computes none.
"""
