"""What a store says of itself: its definitions, its entries, its state. No Spark is needed for it."""

from everview.query.create import create_sql
from everview.query.describe import Facts, describe_entry
from everview.query.report import Report
from everview.query.status import Status, store_status

__all__ = ["Facts", "Report", "Status", "create_sql", "describe_entry", "store_status"]
