"""What Spark did: jobs, stages, tasks, and bytes across exchanges, since the session began."""

from dataclasses import dataclass

from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Work:
    """Counts; differences and parts of them are counts too."""

    jobs: float
    stages: float
    tasks: float
    shuffled: float

    def __sub__(self, other: "Work") -> "Work":
        return Work(*(a - b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))

    def __truediv__(self, by: float) -> "Work":
        return Work(*(a / by for a in vars(self).values()))


def work_done(session: SparkSession) -> Work:
    """All that has been done so far, by the counts of Spark's own status store."""
    store = session.sparkContext._jsc.sc().statusStore()
    summary = store.executorSummary("driver")
    jobs = store.jobsList(None)
    stages = tasks = 0
    for i in range(jobs.size()):
        job = jobs.apply(i)
        stages += job.numCompletedStages()
        tasks += job.numCompletedTasks()
    return Work(jobs.size(), stages, tasks, summary.totalShuffleWrite())
