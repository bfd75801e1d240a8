"""The running pipeline of a store: inserted rows, steps over batches, the streaming query."""

from pyspark.sql import DataFrame, SparkSession

from everview.pipeline.pipeline import Pipeline, open_pipeline
from everview.storage.arrivals import Progress

__all__ = ["DataFrame", "Pipeline", "Progress", "SparkSession", "open_pipeline"]
