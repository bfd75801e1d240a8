"""Information about a store: its definitions, its entries, its state. It needs no Spark."""

from everview.query.create import create_sql
from everview.query.describe import Facts, describe_entry
from everview.query.report import Report, show_names
from everview.query.status import Status, store_status

__all__ = ["Facts", "Report", "Status", "create_sql", "describe_entry", "show_names", "store_status"]
