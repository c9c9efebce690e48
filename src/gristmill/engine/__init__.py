"""Where the writing half runs.

In: narrow work (a function and the parts to call it on) and wide work (a query over Parquet files).
Out: the function's results in the order of the parts; one Parquet file a query.
Promise: engines differ in speed only; results are equal to the last byte.
"""
