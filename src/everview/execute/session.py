"""The local Spark session that Everview creates, and the settings that it needs in any session."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from everview.errors import StoreError
from everview.execute.guards import fit_search
from everview.execute.spark_errors import cause
from everview.settings import SparkSettings

_LOGGING = Path(__file__).with_name("log4j2.properties")
# The failure of a step is reported once; py4j would print its stack trace as well.
logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)
logging.getLogger().addFilter(lambda record: not record.pathname.endswith("py4j/java_gateway.py"))

LOG = "EVERVIEW_LOG"  # the environment variable that names a file for Spark's output

# Settings that Everview's plans need in any session.
RELIED_ON = {
    "spark.sql.ansi.enabled": "false",  # a bad cast is NULL: one row cannot stop a pipeline
    "spark.sql.session.timeZone": "UTC",
    # Settings that change the meaning of SQL text; the user's session may have others.
    "spark.sql.variable.substitute": "false",  # ${x} stands for itself, not for a setting or the environment
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.legacy.literal.pickMinimumPrecision": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.adaptive.enabled": "false",  # rows of a partition must meet their own state
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),  # else Spark adds the bytes up at each row
    "spark.sql.shuffle.partitions": "4",  # of questions; steps say themselves how many they want
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",  # sources come and go by their names
    "spark.sql.repl.eagerEval.enabled": "true",  # a notebook shows an answer as a table
    # The plan that reads the sources has a column for each thing that a view computes of a row. Spark derives
    # what is known of all pairs of columns, and checks the plan after every rule: with 200 views, about a
    # quarter of the samples of its thread. The plans gain nothing by it, as their rows come from Python.
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.lightweightPlanChangeValidation": "false",
    # Many small files: Spark would start a task for each file that it lists, and one for 32 that it reads.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
    "spark.sql.files.openCostInBytes": str(128 * 1024),
}

# For a store in a local folder. Spark's default file manager runs other programs for each file and takes four
# times as long; it protects against two writers, which the lock of the store does already.
LOCAL = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # Spark keeps its lists of the files that a source has read: those of a hundred batches in any case,
    # and by default all of ten minutes, since elsewhere a file that was written may not be seen at once.
    "spark.sql.streaming.fileSource.log.cleanupDelay": "60000",
}

SPARK_SETTINGS = {
    **RELIED_ON,
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",  # a question does not hold up the steps
    "spark.driver.host": "127.0.0.1",
    "spark.python.unix.domain.socket.enabled": "true",  # over TCP a small task waits 40 ms for an ACK
    # A regular expression such as (a|b)* needs a stack as deep as the text that it searches.
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING} -Xss128m",
}


# Of these, a user may set others: they change no answer.
_MAY_DIFFER = (
    "spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.execution.arrow.maxBytesPerBatch",
    "spark.sql.shuffle.partitions", "spark.sql.repl.eagerEval.enabled",
    "spark.sql.constraintPropagation.enabled", "spark.sql.lightweightPlanChangeValidation",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism", "spark.sql.files.openCostInBytes",
)  # fmt: skip


def own_session(settings: SparkSettings | None = None) -> SparkSession:
    """Return a session of our own, without log output, with the Python of this process."""
    settings = settings or SparkSettings()
    given = _settings_of(settings)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with _own_ctrl_c():
        if SparkContext._active_spark_context is None:
            conf = SparkConf().setMaster(settings.master).setAppName("everview").setAll(list(given.items()))
            gateway = _gateway(conf)
            try:
                SparkContext(conf=conf, gateway=gateway)
            except Py4JJavaError as error:
                raise StoreError(
                    f"Spark does not start at {settings.master}: {cause(str(error))}",
                    next_step="check --master, --conf and --packages, and everview.toml",
                ) from error
        builder = SparkSession.builder
        for name, value in given.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        # When Java is gone, this server of pyspark's would print a stack trace beside our message.
        session.sparkContext._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]
        fit_search(stack_size(session))
    return session


def _settings_of(settings: SparkSettings) -> dict[str, str]:
    """Return all settings of a session; refuse those with which answers would be others."""
    given = dict(settings.conf)
    for name, value in RELIED_ON.items():
        if given.get(name, value) != value and name not in _MAY_DIFFER:
            raise StoreError(
                f"{name} is {value} in Everview: with {given[name]} answers would be others",
                next_step=f"leave {name} out",
            )
    found = {**SPARK_SETTINGS, **given}
    for name in ("spark.driver.extraJavaOptions",):
        if name in given:
            found[name] = f"{SPARK_SETTINGS[name]} {given[name]}"
    if not settings.is_local and "spark.driver.host" not in given:
        del found["spark.driver.host"]  # executors of other machines must find the driver
    if settings.packages:
        before = given.get("spark.jars.packages", "")
        found["spark.jars.packages"] = ",".join(filter(None, [before, *settings.packages]))
    return found


def _gateway(conf: SparkConf) -> JavaGateway | None:
    """Start the Java process with its own output and process group; return None if one is running.

    Its output goes into the file that EVERVIEW_LOG names, or is dropped. Its own process group keeps Ctrl-C,
    which a terminal sends to a whole group, from ending Spark's Python workers in the middle of a step.
    """
    if SparkContext._gateway is not None:
        return None
    with tempfile.TemporaryDirectory(prefix="everview-") as folder:
        path = Path(os.environ.get(LOG) or Path(folder) / "spark.log")
        try:
            with path.open("ab") as log:
                return launch_gateway(conf, {"stderr": log, "start_new_session": True})  # type: ignore[no-untyped-call]
        except PySparkException as error:
            raise _did_not_start(path.read_text(errors="replace"), error) from error
        except OSError as error:
            raise StoreError(f"Spark does not start: {error}", next_step="check that file") from error


# Lines that Java prints before the cause and after it.
_NO_CAUSE = re.compile(
    r"WARNING: |WARN |Picked up |Using Spark's default|Setting default log level|To adjust logging level"
    r"|\d\d/\d\d/\d\d \d\d:\d\d:\d\d (WARN|INFO) |at [\w.$/]+\(|\.\.\. \d+ more"
    r"|A fatal exception has occurred"
    r"|Error: (A JNI error|Could not create the Java Virtual Machine|Unable to initialize main class)"
)


def _did_not_start(said: str, error: Exception) -> StoreError:
    """Return why the Java process did not start: the innermost cause in its output, else its first error."""
    lines = [line.strip() for line in said.splitlines()]
    telling = [line for line in lines if line and not _NO_CAUSE.match(line)]
    causes = [line.removeprefix("Caused by: ") for line in telling if line.startswith("Caused by: ")]
    why = (causes[-1:] or telling[:1] or [line for line in lines if line][-1:] or [str(error)])[0]
    why = why.removeprefix('Exception in thread "main" ')
    if "UnsupportedClassVersionError" in said:
        why = "this Java is too old"
    return StoreError(
        f"Spark does not start: {why}",
        next_step=f"check that Java 17 or later is there: java -version; {LOG}=FILE keeps what Spark says",
    )


def stop_session(session: SparkSession) -> None:
    """Stop a session of our own; if its Java process is gone already, let the next one start anew."""
    try:
        session.stop()
    except (Py4JError, ConnectionError):
        SparkContext._active_spark_context = None
        SparkContext._gateway = SparkContext._jvm = None
        SparkSession._instantiatedSession = None


@contextmanager
def _own_ctrl_c() -> Iterator[None]:
    """Keep the Ctrl-C handler of the program; Spark would install its own."""
    before = signal.getsignal(signal.SIGINT)
    yield
    chosen = before not in (signal.default_int_handler, signal.SIG_DFL, None)
    if chosen and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)


def prepare_session(session: SparkSession) -> SparkSession:
    """Return a session beside the user's own, on the same Spark, with the settings that Everview needs."""
    own = session.newSession()
    for name, value in RELIED_ON.items():
        own.conf.set(name, value)
    fit_search(stack_size(own))
    return own


_STACK = re.compile(r"-Xss(\d+)([kKmMgG]?)")
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_DEFAULT_STACK = 2**20


def stack_size(session: SparkSession) -> int:
    """Return the stack size in bytes of the threads in which Spark evaluates expressions."""
    bean = "com.sun.management.HotSpotDiagnosticMXBean"
    java = session._jvm.java.lang  # type: ignore[union-attr]
    try:
        beans = java.management.ManagementFactory.getPlatformMXBean(java.Class.forName(bean))
        here = int(beans.getVMOption("ThreadStackSize").getValue()) * 2**10
    except Py4JError:  # this Java has no such bean
        here = _DEFAULT_STACK
    if str(session.sparkContext.master).startswith("local"):
        return here
    given = _STACK.findall(session.sparkContext.getConf().get("spark.executor.extraJavaOptions", "") or "")
    there = int(given[-1][0]) * _UNITS[given[-1][1].lower()] if given else _DEFAULT_STACK
    return min(here, there)
