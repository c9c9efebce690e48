"""The way from raw files to shards, as jobs that can be killed at any moment and taken up again.

In: the units of a recipe's sources.
Out: the files of a store, and the account of every document that did not get there.
Promise: a job's files depend on what its fingerprint names; a job that has its marker is never done twice.
"""
