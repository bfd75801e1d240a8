"""How a command opens a store: by what was typed, and by everview.toml in the working directory."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from everview.errors import EverviewError, nearest
from everview.settings import SparkSettings

OPTIONS_FILE = "everview.toml"
_KEYS = ("strategy", "master", "packages", "conf")
_COORDINATES = re.compile(r"[^:\s]+:[^:\s]+:[^:\s]+")


@dataclass(frozen=True)
class OpenOptions:
    """The strategy of a store and the settings of Spark; `typed` names the options of the command line."""

    strategy: str | None = None
    spark: SparkSettings = field(default_factory=SparkSettings)
    typed: tuple[str, ...] = ()


def open_options(
    strategy: str | None = None,
    master: str | None = None,
    conf: Sequence[str] = (),
    packages: Sequence[str] = (),
) -> OpenOptions:
    """Return the options of a command; those that were typed come before those of everview.toml."""
    typed = {"--strategy": strategy, "--master": master, "--conf": conf, "--packages": packages}
    kept = _read_file(Path(OPTIONS_FILE))
    pairs = dict(kept.conf) | dict(map(_pair, conf))
    more = tuple(name.strip() for text in packages for name in text.split(","))
    for name in more:
        _require_package(name)
    spark = SparkSettings(
        master or kept.master, tuple(pairs.items()), tuple(dict.fromkeys((*kept.packages, *more)))
    )
    return OpenOptions(
        strategy or kept.strategy, spark, tuple(name for name, value in typed.items() if value)
    )


@dataclass(frozen=True)
class _KeptOptions:
    """What everview.toml says."""

    strategy: str | None = None
    master: str = SparkSettings().master
    packages: tuple[str, ...] = ()
    conf: tuple[tuple[str, str], ...] = ()


def _read_file(path: Path) -> _KeptOptions:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return _KeptOptions()
    except (OSError, ValueError) as error:
        raise EverviewError(f"{path}: {error}", next_step="mend the file, or remove it") from error
    for key in found:
        if key not in _KEYS:
            raise EverviewError(
                f"{path}: there is no setting '{key}'", meant=nearest(key, _KEYS), choices=_KEYS
            )
    for key in ("strategy", "master"):
        if not isinstance(found.get(key, ""), str):
            raise EverviewError(f"{path}: '{key}' is a text", next_step=f'write {key} = "…"')
    packages, conf = found.get("packages", []), found.get("conf", {})
    if not isinstance(packages, list) or not all(isinstance(name, str) for name in packages):
        raise EverviewError(f"{path}: 'packages' is a list of texts", next_step='write packages = ["…"]')
    for name in packages:
        _require_package(name)
    if not isinstance(conf, Mapping):
        raise EverviewError(
            f"{path}: 'conf' is a table", next_step='write [conf] and "spark.executor.memory" = "4g" below it'
        )
    pairs = tuple((name, _text(value, name, path)) for name, value in conf.items())
    kept = {key: found[key] for key in ("strategy", "master") if key in found}
    return _KeptOptions(**kept, packages=tuple(packages), conf=pairs)


def _text(value: object, name: str, path: Path) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float)):
        return str(value)
    raise EverviewError(
        f"{path}: the value of '{name}' is no text, number or truth value",
        next_step=f'write the whole name in quotes: "{name}.…" = "…"' if isinstance(value, dict) else None,
    )


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise EverviewError(f"--conf {text}: there is no value", next_step="write --conf NAME=VALUE")
    return name, value


def _require_package(name: str) -> None:
    if not _COORDINATES.fullmatch(name):
        raise EverviewError(
            f"'{name}' is no package", next_step="write its Maven coordinates: group:artifact:version"
        )
