"""A PostgreSQL server on this machine for tests: its files in a temporary folder, on a port of its own.

`make .postgres/.ready` finds the server's programs, or installs them.
"""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest


@dataclass(frozen=True)
class Server:
    """A server that can be stopped and started again."""

    programs: Path
    folder: Path
    port: int

    @property
    def url(self) -> str:
        return f"postgresql://tester:open@127.0.0.1:{self.port}/postgres?connect_timeout=2"

    def start(self) -> None:
        settings = f"-p {self.port} -c listen_addresses=127.0.0.1 -k {self.folder} -c fsync=off"
        self._run(
            "pg_ctl", "-D", f"{self.folder}/data", "-w", "-l", f"{self.folder}/log", "-o", settings, "start"
        )

    def stop(self) -> None:
        self._run("pg_ctl", "-D", f"{self.folder}/data", "-w", "-m", "immediate", "stop")

    def make(self) -> None:
        """Make the files of the server; it refuses to run as root."""
        password = self.folder / "password"
        password.write_text("open")
        if os.getuid() == 0:
            owner = pwd.getpwnam("postgres")
            for path in (self.folder, password):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        self._run("initdb", "-D", f"{self.folder}/data", "-U", "tester", "-A", "scram-sha-256",
                  f"--pwfile={password}", "--no-sync")  # fmt: skip

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.url) as connection:
            return connection.execute(sql).fetchall()  # type: ignore[arg-type]

    def execute(self, sql: str) -> None:
        with psycopg.connect(self.url) as connection:
            connection.execute(sql)  # type: ignore[arg-type]

    def _run(self, program: str, *arguments: str) -> None:
        user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
        command = [*user, str(self.programs / program), *arguments]
        with tempfile.TemporaryFile() as output:  # the server keeps a pipe open
            done = subprocess.run(command, cwd="/", stdout=output, stderr=output)
            if done.returncode:
                output.seek(0)
                pytest.fail(f"{program}: {output.read().decode(errors='replace')}")


@contextmanager
def running_server() -> Iterator[Server]:
    """Run a server for some tests."""
    mark = Path(__file__).parents[1] / ".postgres" / ".ready"
    if not mark.exists():
        pytest.fail("there is no PostgreSQL server: run `make .postgres/.ready`")
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        server = Server(Path(mark.read_text().strip()), Path(folder), free.getsockname()[1])
        free.close()
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop()
