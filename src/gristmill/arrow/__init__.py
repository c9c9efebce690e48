"""Stage 6, for rows instead of tokens: an Arrow data set that goes on at any row.

In: files in Arrow's stream format, such as those that `datasets` keeps in its cache, here or in a bucket.
Out: rows as dicts, in an order that is computed, mapped, filtered and batched on their way.
Promise: the state is what is left; any number of ranks and workers go on from it, and no row is read to get there.
"""
