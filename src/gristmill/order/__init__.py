"""Stage 5: which tokens are sample i of step s.

In: the figures of opened stores (tokens, documents, fingerprints) and the options of a plan.
Out: integers only: sources, epochs, samples and token positions.
Promise: a pure function of (plan, step); ranks, workers and files do not exist here.
"""
