"""Everview keeps SQL views over streams and tables continuously correct, on Spark.

The way of a query, and the folders that it passes through:

    SQL text → sql/ → algebra/ → temporal/ → rewrite/ → spark/ (+ kernels/) → runtime/ → sinks, CLI
"""

from everview.database import Database, connect
from everview.errors import EverviewError

__all__ = ["Database", "EverviewError", "connect"]
__version__ = "0.1.0"
