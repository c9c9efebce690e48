"""Stage 1: raw files to documents.

In: files and folders, by source name.
Out: Arrow record batches with `id`, `source`, `path` and `text`, in a stable order.
Promise: streams; every document that cannot be read is an error with file and place, or is counted.
"""
