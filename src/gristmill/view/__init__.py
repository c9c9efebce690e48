"""A local page over a store, a plan or a run, rendered here and read in a browser.

In: a path. Out: pages at an address of this machine alone, for as long as the command runs.
Promise: nothing is answered without the address's token, to another host's name or origin; nothing outside of what was
given is read; nothing is read whole, so that 10^8 documents open in under a second.
"""
