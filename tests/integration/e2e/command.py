"""The `offsite` command as scripts use it: a process of its own, `-o json`, exit code and error document."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OFFSITE = Path(sys.executable).with_name("offsite")
LIMIT_S = 150.0


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
    began_s = time.monotonic()
    done = subprocess.run(
        command(*arguments),
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


def command(*arguments: object) -> list[str]:
    output = () if "--help" in arguments or "-o" in arguments else ("-o", "json")
    return [str(OFFSITE), *map(str, arguments), *output]


def clean_environment(more: Mapping[str, str] | None) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("OFFSITE_")} | dict(more or {})


def files_under(folder: Path) -> dict[str, bytes]:
    """Every file and what it holds: to see that nothing was written."""
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}
