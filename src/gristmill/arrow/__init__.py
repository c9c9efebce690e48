"""Stage 6, for rows instead of tokens: an Arrow data set that goes on at any row.

In: files in Arrow's stream format, such as those that `datasets` keeps in its cache.
Out: rows as dicts, in an order that is computed, mapped and filtered on their way.
Promise: the position is a file and a row; no row is read to get there, and no foreign library is imported.
"""
