"""Where bytes are: the one door to files of users and of stores.

In: a path as it was given, from any room. Out: `place_at(path)`, which looks, reads, maps, lists and writes.
Promise: no other room opens a file of a user or a store; a file appears whole or not at all; what is read of one place
can be read of any other that `base.Place` is written for.
"""
