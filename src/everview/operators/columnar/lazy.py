"""NumPy, Polars and PyArrow, imported at their first use: EXPLAIN does not need them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import polars as pl
    import pyarrow as pa  # type: ignore[import-untyped]
else:
    from importlib import import_module

    class _LazyModule:
        """A stand-in for a module; the first use of any name imports it."""

        def __init__(self, name: str) -> None:
            self.__dict__["__name__"] = name

        def __getattr__(self, name: str) -> object:
            module = import_module(self.__dict__["__name__"])
            self.__dict__.update(vars(module))
            return getattr(module, name)

    np, npt, pl, pa = map(_LazyModule, ("numpy", "numpy.typing", "polars", "pyarrow"))

__all__ = ["np", "npt", "pa", "pl"]
