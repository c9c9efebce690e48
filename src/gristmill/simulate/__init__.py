"""What a run will fetch, hold and wait for, before it runs.

In: a plan over opened stores, and the machines, network and prices of the run.
Out: bytes, requests, cost and time, over the whole run and stretch by stretch.
Promise: the order, the extents and the eviction are the loader's own; only time is modelled, and nothing is read of
tokens.
"""
