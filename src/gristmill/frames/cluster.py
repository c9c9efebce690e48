"""What the rows of a DataFrame and the jobs of a run share on a cluster: tasks, errors as values, the engine."""

from __future__ import annotations

from gristmill.engine.spark import SparkEngine, spark_errors
from gristmill.engine.tasks import Task, answers, itself, received, taken

__all__ = ["SparkEngine", "Task", "answers", "itself", "received", "spark_errors", "taken"]
