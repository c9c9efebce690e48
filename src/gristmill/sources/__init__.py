"""Stage 1: raw files to documents.

In: files and folders, by source name, cut into units that depend on the files alone.
Out: Arrow record batches with `id`, `source`, `path`, `row`, `text` and the carried fields, in a stable order.
Promise: streams; every document that cannot be read is an error with file and place, or is counted.
"""
