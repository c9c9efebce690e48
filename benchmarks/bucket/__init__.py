"""What remote.py measures with: a bucket on this machine, what lies in it, and processes that read it."""
