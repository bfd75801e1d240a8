"""The running pipeline of a store: inserted rows, steps over batches, the streaming query."""

from pyspark.sql import DataFrame, SparkSession

from everview.pipeline.pipeline import Pipeline, open_pipeline
from everview.pipeline.repair import open_repair
from everview.storage.arrivals import Progress

__all__ = ["DataFrame", "Pipeline", "Progress", "SparkSession", "open_pipeline", "open_repair"]
