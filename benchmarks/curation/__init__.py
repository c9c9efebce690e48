"""Curation against datatrove: a worker process for each side, whole runs, agreement, and the report."""
