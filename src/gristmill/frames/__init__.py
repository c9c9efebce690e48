"""Rows of a DataFrame through the writing half; which library holds the DataFrame, an adapter knows.

In: Arrow batches of rows, on whatever worker holds them, and a recipe.
Out: a store made of them by the same passes as one made of files; or each row with the rule that dropped it.
Promise: bytes depend on the rows alone, not on their order or on how they were parted; each row counts once.
"""
