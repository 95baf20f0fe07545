from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.e2e.command import OFFSITE, clean_environment

LIMIT_S = 120.0


@dataclass(slots=True, kw_only=True)
class Coordinator:
    """An `offsite serve` of its own process."""

    process: subprocess.Popen[str]
    url: str
    login: str = ""
    """The address that begins a session, where one was told."""

    def client(self, token: str | None = None) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, timeout=LIMIT_S, headers=headers, trust_env=False)

    def post(self, path: str, body: Any = None, **headers: str) -> httpx.Response:
        with self.client() as client:
            return client.post(path, json=body, headers=headers)

    def get(self, path: str) -> Any:
        with self.client() as client:
            answer = client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def ended(self, job: str) -> Any:
        """The job once it is over: its events are listened to until then."""
        with self.client() as client, client.stream("GET", f"/api/v1/jobs/{job}/events") as events:
            for line in events.iter_lines():
                assert line == "" or line.startswith(("event: job", "data: {")), line
        return self.get(f"/api/v1/jobs/{job}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(LIMIT_S)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(LIMIT_S)


Serve = Callable[..., Coordinator]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts coordinators; at the end none of their jobs is left."""
    begun: list[Coordinator] = []

    def start(*options: object, is_open: bool = True) -> Coordinator:
        words = ["--no-token"] if is_open else []
        words += [] if "--config" in options else ["--repo", str(tmp_path / "repository")]
        process = subprocess.Popen(
            [str(OFFSITE), "serve", "--port", "0", *words, *map(str, options)],
            env=clean_environment(None),
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        line = next(each for each in process.stderr if each.startswith("serving"))
        login = "" if is_open else next(each for each in process.stderr if each.startswith("open")).split()[1]
        begun.append(Coordinator(process=process, url=line.split()[-1], login=login))
        return begun[-1]

    yield start
    for each in begun:
        each.process.kill()
        each.process.wait(LIMIT_S)
        if each.process.stderr is not None:
            each.process.stderr.close()
    for pid in workers_of(tmp_path):
        os.kill(pid, signal.SIGKILL)


def workers_of(folder: Path) -> list[int]:
    """The processes of jobs that are about what lies in `folder`."""
    found = []
    for each in Path("/proc").iterdir():
        if not each.name.isdecimal():
            continue
        try:
            arguments, environment = (each / "cmdline").read_bytes(), (each / "environ").read_bytes()
        except OSError:
            continue
        if b"offsite.cli.work" in arguments and str(folder).encode() in environment:
            found.append(int(each.name))
    return found
