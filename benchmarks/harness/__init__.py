"""The machinery around the contenders: data, worker processes, rounds, and the report."""
