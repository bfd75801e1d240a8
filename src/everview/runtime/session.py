"""The Spark session that Everview makes for itself, for this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

_LOGGING = Path(__file__).with_name("log4j2.properties")

# What Everview's plans rely on; a session of the user's own must have the first three.
SETTINGS = {
    "spark.sql.ansi.enabled": "false",  # a bad cast is NULL: one row cannot stop a pipeline
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",  # rows of a partition must meet their own state
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING}",
}


def local_session() -> SparkSession:
    """A local session on all cores; quiet, and with the Python that runs this process."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[*]").appName("everview")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
