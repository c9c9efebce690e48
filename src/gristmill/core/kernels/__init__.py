"""What compiled functions of every room share: types, memory, UTF-8, lines, hashes, tables; each once.

In: arrays and addresses. Out: functions for the inner loops of kernels, and a few that Python calls.
Promise: importing a module of this room imports Numba (0.2 s); whoever calls one of these functions is compiled anew
when it changes (`core.compiled`).
"""
