"""The catalog of a store: its entries by name, and the dependencies between them."""

from everview.catalog.alter import Alteration, add_columns_sql
from everview.catalog.catalog import CATALOG_FORMAT, Catalog
from everview.catalog.encoding import type_from_name
from everview.catalog.entries import (
    CLOCK,
    CLOCK_ENTRY,
    MAX_AHEAD,
    URI_SCHEME,
    Defaults,
    Entry,
    EventStreamEntry,
    FedEntry,
    Lateness,
    Source,
    StreamEntry,
    TableEntry,
    TaggedEntry,
    ViewEntry,
    kind_with_article,
    narrowed_entry,
    stream_columns,
    untaken_columns,
)

__all__ = [
    "CATALOG_FORMAT",
    "CLOCK",
    "CLOCK_ENTRY",
    "MAX_AHEAD",
    "URI_SCHEME",
    "Alteration",
    "Catalog",
    "Defaults",
    "Entry",
    "EventStreamEntry",
    "FedEntry",
    "Lateness",
    "Source",
    "StreamEntry",
    "TableEntry",
    "TaggedEntry",
    "ViewEntry",
    "add_columns_sql",
    "kind_with_article",
    "narrowed_entry",
    "stream_columns",
    "type_from_name",
    "untaken_columns",
]
