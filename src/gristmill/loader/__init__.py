"""Stage 6: my rows of a step, in time.

In: a plan, a rank and a world size.
Out: dicts of numpy arrays, step by step or at random.
Promise: the same batches for every number of ranks and threads; the state is a step and a proof of the plan.
"""
