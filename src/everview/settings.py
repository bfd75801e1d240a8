"""The settings of a Spark that Everview starts itself: the master, its configuration, further packages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SparkSettings:
    """How Spark is started; by default on this machine, on all its cores.

    `packages` are Maven coordinates, as `group:artifact:version`.
    """

    master: str = "local[*]"
    conf: tuple[tuple[str, str], ...] = ()
    packages: tuple[str, ...] = ()

    @property
    def is_local(self) -> bool:
        """Whether the executors are threads of this machine.

        >>> SparkSettings().is_local, SparkSettings("local-cluster[2,1,1024]").is_local
        (True, False)
        """
        return self.master == "local" or self.master.startswith("local[")
