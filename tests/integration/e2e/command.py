"""The `offsite` command as scripts use it: a process of its own, `-o json`, exit code and error document.

Commands that run to their end are forked from a template that has imported offsite (`tests.command_template`).
"""

from __future__ import annotations

import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests import command_template

OFFSITE = Path(sys.executable).with_name("offsite")
LIMIT_S = 150.0
TEMPLATE = Path(command_template.__file__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A command that ended, after `took_s` seconds."""

    exit_code: int
    stdout: str
    stderr: str
    took_s: float

    @property
    def result(self) -> Any:
        """The JSON document it printed."""
        return json.loads(self.stdout)

    @property
    def error(self) -> dict[str, Any]:
        """The error document: the last line of stderr."""
        return json.loads(self.stderr.splitlines()[-1])["error"]


def offsite(*arguments: object, environment: Mapping[str, str] | None = None) -> Finished:
    """Run to the end, whatever that is."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        began_s = time.monotonic()
        exit_code = template().run(command(*arguments), clean_environment(environment), out, err)
        took_s = time.monotonic() - began_s
        for each in (out, err):
            each.seek(0)
        return Finished(exit_code=exit_code, stdout=out.read(), stderr=err.read(), took_s=took_s)


def started(*arguments: object, environment: Mapping[str, str] | None = None) -> Finished:
    """The same by a start of Python, for who looks at what that costs, or at the process."""
    return finished(command(*arguments), environment)


def finished(words: list[str], environment: Mapping[str, str] | None) -> Finished:
    began_s = time.monotonic()
    done = subprocess.run(
        words,
        env=clean_environment(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    took_s = time.monotonic() - began_s
    return Finished(exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr, took_s=took_s)


def succeed(*arguments: object, environment: Mapping[str, str] | None = None) -> Any:
    """The result of a command that has to end well."""
    done = offsite(*arguments, environment=environment)
    assert done.exit_code == 0, done.stderr
    return done.result


def start(*arguments: object, environment: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Begin in a process group of its own, which the caller ends."""
    return subprocess.Popen(
        command(*arguments),
        env=clean_environment(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


class Template:
    """A running template, which ends with this process. One command at a time."""

    def __init__(self) -> None:
        self._orders, ours = socket.socketpair()
        with ours:
            words = [sys.executable, "-P", TEMPLATE]
            self._process = subprocess.Popen(words, stdin=ours.fileno(), stdout=subprocess.DEVNULL, process_group=0)
        self._answers = self._orders.makefile("rb")
        self._alone = threading.Lock()

    def run(self, words: list[str], environment: Mapping[str, str], out: IO[str], err: IO[str]) -> int:
        """Its exit code, negative after a signal, as `subprocess` says it."""
        request = {"arguments": words, "environment": dict(environment), "folder": str(Path.cwd())}
        with self._alone:
            socket.send_fds(self._orders, [command_template.ORDER], [out.fileno(), err.fileno()])
            self._orders.sendall(json.dumps(request).encode() + b"\n")
            pid = int(self._answers.readline())
            late = threading.Timer(LIMIT_S, os.kill, (pid, signal.SIGKILL))
            late.start()
            try:
                return int(self._answers.readline())
            finally:
                late.cancel()


@functools.cache
def template() -> Template:
    return Template()


def command(*arguments: object) -> list[str]:
    output = () if "--help" in arguments or "-o" in arguments else ("-o", "json")
    return [str(OFFSITE), *map(str, arguments), *output]


def clean_environment(more: Mapping[str, str] | None) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("OFFSITE_")} | dict(more or {})


def files_under(folder: Path) -> dict[str, bytes]:
    """Every file and what it holds: to see that nothing was written."""
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}
