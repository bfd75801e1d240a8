"""What all tests share: the flag that rewrites golden files, and how hard hypothesis searches."""

import os
import sys
from collections.abc import Iterator
from typing import Any

# Frames in tests are tiny: threads would only get in each other's way. Polars reads this when it is imported.
os.environ.setdefault("POLARS_MAX_THREADS", "1")
# A Java process of one test runs a few plans once each: to compile them for speed takes longer than it saves.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

import pytest
from hypothesis import settings

# fast and full (`make test`): the same cases every time, so that a red test is red for everybody.
# slow (`make fuzz`): new ones, many.
settings.register_profile("fast", deadline=None, derandomize=True, max_examples=10)
settings.register_profile("full", deadline=None, derandomize=True, max_examples=20)
settings.register_profile("slow", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("fast")


# The files that take minutes. They go first: at the end of `make test`, no worker waits long for the other.
LONGEST = (
    "tests/engine/test_recovery.py",
    "tests/engine/test_repair_of_damage.py",
    "tests/test_documents.py",
    "tests/engine/test_changed_plans.py",
    "tests/engine/test_added_columns.py",
    "tests/operators/test_kernels.py",
    "tests/temporal/test_claims.py",
    "tests/plan/test_lower.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {file: place for place, file in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(LONGEST)))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regenerate", action="store_true", help="write golden files anew; review the diff")


@pytest.fixture(scope="session")
def regenerate(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written instead of compared."""
    return bool(request.config.getoption("--regenerate"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One small local Spark session for all tests of a process, with the settings of Everview's own."""
    from pyspark.sql import SparkSession

    from everview.execute.session import SPARK_SETTINGS
    from tests.kafka import connector_jars

    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers need what these tests run on
    builder = SparkSession.builder.master("local[2]").appName("everview-tests")
    own = {"spark.sql.shuffle.partitions": "2", "spark.driver.extraClassPath": connector_jars()}
    for name, value in {**SPARK_SETTINGS, **own}.items():
        builder = builder.config(name, value)
    with pytest.MonkeyPatch.context() as patch:
        # This process lives as long as all tests, and Spark's planner becomes hot: compiling for speed pays.
        patch.setenv("SPARK_SUBMIT_OPTS", "-XX:+UseSerialGC")
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
