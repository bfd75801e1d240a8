"""Counts of Spark's jobs, stages, tasks, and bytes across exchanges, since the session began."""

from dataclasses import dataclass

from pyspark.sql import SparkSession


@dataclass(frozen=True)
class SparkCounts:
    """Counts of jobs, stages, tasks and shuffled bytes; they can be subtracted and divided."""

    jobs: float
    stages: float
    tasks: float
    shuffled: float

    def __sub__(self, other: "SparkCounts") -> "SparkCounts":
        return SparkCounts(*(a - b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))

    def __truediv__(self, by: float) -> "SparkCounts":
        return SparkCounts(*(a / by for a in vars(self).values()))


def count_spark_work(session: SparkSession) -> SparkCounts:
    """Return the counts so far, from Spark's status store."""
    store = session.sparkContext._jsc.sc().statusStore()
    summary = store.executorSummary("driver")
    jobs = store.jobsList(None)
    stages = tasks = 0
    for i in range(jobs.size()):
        job = jobs.apply(i)
        stages += job.numCompletedStages()
        tasks += job.numCompletedTasks()
    return SparkCounts(jobs.size(), stages, tasks, summary.totalShuffleWrite())
