"""A question of another process: through the server of a store, or with a Spark of its own."""

import os
import subprocess
import sys
import time
from pathlib import Path

from bench.engine import temporary_folder
from bench.harness import compare

EVERVIEW = Path(sys.executable).with_name("everview")
PATIENCE = 300  # seconds for the server to start
SCRIPT = """
CREATE TABLE t (k INT, v INT);
CREATE VIEW sums AS SELECT k, SUM(v) AS v FROM t GROUP BY k;
INSERT INTO t VALUES (1, 1), (1, 2), (2, 3);
"""
QUESTION = "SELECT * FROM sums ORDER BY k"


def bench_small_question() -> None:
    """A small question through the server against `everview query` alone, each a process of its own."""
    with temporary_folder() as path:
        (path / "script.sql").write_text(SCRIPT)
        # The second process looks for a server in another folder, and finds none.
        through, alone = (_environment(path / name) for name in ("runtime", "elsewhere"))
        subprocess.run([EVERVIEW, "run", "script.sql"], cwd=path, check=True, stdout=subprocess.DEVNULL)

        def ask(environment: dict[str, str]) -> None:
            asked = [EVERVIEW, "query", QUESTION, "--format", "csv"]
            answer = subprocess.run(asked, cwd=path, env=environment, check=True, capture_output=True)
            assert answer.stdout == b"k,v\n1,3\n2,3\n", answer

        with subprocess.Popen(
            [EVERVIEW, "serve"], cwd=path, env=through, stdout=subprocess.DEVNULL
        ) as server:
            try:
                _wait_for_socket(path / "runtime" / "everview", server)
                title = "a small question through the server, against `everview query` alone"
                compare(title, lambda: ask(through), lambda: ask(alone), runs=3, warm_ups=1)
            finally:
                server.terminate()


def _environment(runtime: Path) -> dict[str, str]:
    runtime.mkdir(mode=0o700)
    return {**os.environ, "XDG_RUNTIME_DIR": str(runtime)}


def _wait_for_socket(folder: Path, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + PATIENCE
    while not list(folder.glob("*.sock")):
        assert server.poll() is None, "the server has ended"
        assert time.monotonic() < end, "the server does not start"
        time.sleep(0.1)
