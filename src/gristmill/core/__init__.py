"""Words that every room may use: errors, options, hashes, files.

In: nothing. Out: small functions without state of their own.
Promise: imports nothing from the rest of the house, and nothing heavier than xxhash.
"""
