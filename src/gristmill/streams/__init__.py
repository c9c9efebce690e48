"""Stage 6': documents straight to batches, nothing written.

In: files of text, cut into units; cleaning, rules and functions of the user's; a tokenizer; a way to cut sequences.
Out: the batches of one rank, with the keys of the loader, and a state of 12 bytes a row.
Promise: what a row is fed is a pure function of (stream, its state): ranks, workers and restarts change nothing.
"""
