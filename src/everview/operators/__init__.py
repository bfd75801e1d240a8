"""Physical operators, one file each: record, state, increment, compaction. No Spark, no files.

`base.py` has the base classes. `columnar/` and `aggregates/` have what several operators share: change rows
as Polars frames, keys and hashes, exact sums.
"""

from everview.operators.aggregate import AggregateOperator
from everview.operators.band_join import BandJoinOperator
from everview.operators.base import InputRows, Operator, StatefulOperator, StatePart, column
from everview.operators.constant import ConstantOperator, DomainConstantOperator
from everview.operators.copy_counts import CopyCountsOperator
from everview.operators.distinct import DistinctOperator
from everview.operators.event_collect import CollectOperator
from everview.operators.event_copies import CopiesOperator
from everview.operators.event_hold import HoldOperator
from everview.operators.event_match import MatchOperator
from everview.operators.event_met import MetOperator
from everview.operators.event_once import OnceOperator
from everview.operators.event_operator import EventOperator, EventWait
from everview.operators.event_output import EventOutputOperator
from everview.operators.event_unmet import UnmetOperator
from everview.operators.filter import FilterOperator
from everview.operators.insertions import InsertionsOperator
from everview.operators.join import JoinOperator
from everview.operators.latest_per_key import LatestPerKeyOperator
from everview.operators.multiset import MultisetOperator
from everview.operators.negate import NegateOperator
from everview.operators.negative_tuples import NegativeTuplesOperator
from everview.operators.over import OverColumn, OverOperator
from everview.operators.project import ProjectOperator
from everview.operators.rank import RankOperator
from everview.operators.register import RegisterOperator
from everview.operators.relation_stream import RelationStreamOperator
from everview.operators.row_window import RowWindowOperator
from everview.operators.scan import ARRIVALS, DomainScanOperator, ScanOperator
from everview.operators.session import SessionOperator
from everview.operators.sliding_row_window import SlidingRowWindowOperator
from everview.operators.stamp import StampOperator
from everview.operators.summed_sync import SummedSyncOperator
from everview.operators.sync_every import SyncEveryOperator
from everview.operators.sync_on import SyncOnOperator
from everview.operators.synced_latest import SyncedLatestOperator
from everview.operators.time_window import TimeWindowOperator
from everview.operators.union import UnionOperator
from everview.operators.version_anti_join import VersionAntiJoinOperator
from everview.operators.version_join import VersionJoinOperator

__all__ = [
    "ARRIVALS", "AggregateOperator", "BandJoinOperator", "CollectOperator", "ConstantOperator",
    "CopiesOperator", "CopyCountsOperator", "DistinctOperator", "DomainConstantOperator",
    "DomainScanOperator", "EventOperator", "EventOutputOperator", "EventWait", "FilterOperator",
    "HoldOperator", "InputRows", "InsertionsOperator", "JoinOperator", "LatestPerKeyOperator",
    "MatchOperator", "MetOperator", "MultisetOperator", "NegateOperator", "NegativeTuplesOperator",
    "OnceOperator", "Operator", "OverColumn", "OverOperator", "ProjectOperator", "RankOperator",
    "RegisterOperator", "RelationStreamOperator", "RowWindowOperator", "ScanOperator", "SessionOperator",
    "SlidingRowWindowOperator", "StampOperator", "StatePart", "StatefulOperator", "SummedSyncOperator",
    "SyncEveryOperator", "SyncOnOperator", "SyncedLatestOperator", "TimeWindowOperator", "UnionOperator",
    "UnmetOperator", "VersionAntiJoinOperator", "VersionJoinOperator", "column",
]  # fmt: skip
