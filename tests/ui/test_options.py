"""--master, --conf, --packages and --strategy, and everview.toml, which keeps them."""

from __future__ import annotations

from pathlib import Path

import pytest

from everview.errors import EverviewError, StoreError
from everview.execute.session import _settings_of
from everview.settings import SparkSettings
from everview.ui.options import OpenOptions, open_options

TOML = """
strategy = "nt"
master = "spark://host:7077"
packages = ["a:b:1"]
[conf]
"spark.executor.memory" = "4g"
"spark.cores.max" = 3
"spark.speculation" = true
"""
MEMORY, CORES, TWICE = (
    ("spark.executor.memory", "4g"),
    ("spark.cores.max", "3"),
    ("spark.speculation", "true"),
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_nothing_is_said() -> None:
    assert open_options() == OpenOptions(None, SparkSettings("local[*]"))


def test_the_file_keeps_them() -> None:
    Path("everview.toml").write_text(TOML)
    assert open_options() == OpenOptions(
        "nt", SparkSettings("spark://host:7077", (MEMORY, CORES, TWICE), ("a:b:1",))
    )


def test_what_is_typed_comes_first() -> None:
    Path("everview.toml").write_text(TOML)
    found = open_options("upa", "local[2]", ["spark.cores.max=1", "x=a=b"], ["c:d:2,a:b:1"])
    conf = (MEMORY, ("spark.cores.max", "1"), TWICE, ("x", "a=b"))
    assert found.spark == SparkSettings("local[2]", conf, ("a:b:1", "c:d:2"))
    assert found.strategy == "upa"
    assert found.typed == ("--strategy", "--master", "--conf", "--packages")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mastr = 'x'", "everview.toml: there is no setting 'mastr'"),
        ("master = 3", "everview.toml: 'master' is a text"),
        ("packages = 'a:b:1'", "everview.toml: 'packages' is a list of texts"),
        ("packages = ['a']", "'a' is no package"),
        ("conf = 3", "everview.toml: 'conf' is a table"),
        ("[conf]\nspark.x = 1", "everview.toml: the value of 'spark' is no text, number or truth value"),
        ("master =", "everview.toml: Invalid value"),
    ],
)
def test_mistakes_in_the_file(text: str, said: str) -> None:
    Path("everview.toml").write_text(text)
    with pytest.raises(EverviewError) as refused:
        open_options()
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize(
    ("conf", "packages", "said"),
    [(["x"], [], "--conf x: there is no value"), ([], ["a:b"], "'a:b' is no package")],
)
def test_mistakes_that_are_typed(conf: list[str], packages: list[str], said: str) -> None:
    with pytest.raises(EverviewError) as refused:
        open_options(conf=conf, packages=packages)
    assert str(refused.value).startswith(said)


def test_settings_of_a_session() -> None:
    found = _settings_of(SparkSettings("spark://h:1", (("spark.sql.shuffle.partitions", "9"),), ("a:b:1",)))
    assert found["spark.sql.shuffle.partitions"] == "9"
    assert found["spark.jars.packages"] == "a:b:1"
    assert "spark.driver.host" not in found, "executors of other machines must find the driver"
    assert "spark.driver.host" in _settings_of(SparkSettings())
    java = _settings_of(SparkSettings(conf=(("spark.driver.extraJavaOptions", "-Dx=1"),)))
    assert java["spark.driver.extraJavaOptions"].endswith("-Xss128m -Dx=1")


def test_a_setting_with_which_answers_would_be_others() -> None:
    with pytest.raises(StoreError) as refused:
        _settings_of(SparkSettings(conf=(("spark.sql.ansi.enabled", "true"),)))
    assert str(refused.value) == (
        "spark.sql.ansi.enabled is false in Everview: with true answers would be others\n"
        "  next: leave spark.sql.ansi.enabled out"
    )
