"""What a store says of itself: its definitions, its entries, its state. No Spark is needed for it."""

from everview.reports.create import create_sql
from everview.reports.describe import Facts, describe
from everview.reports.report import Report
from everview.reports.status import Status, store_status

__all__ = ["Facts", "Report", "Status", "create_sql", "describe", "store_status"]
