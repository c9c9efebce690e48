"""Words that every room may use: errors, options, hashes, compiled functions.

In: nothing. Out: small functions without state of their own.
Promise: imports nothing from the rest of the house. `compiled` and `kernels` import Numba, all else xxhash at most.
"""
