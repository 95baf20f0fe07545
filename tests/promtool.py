"""Prometheus' own tool that checks metrics and rules: the installed one, or that of Debian's package `prometheus`,
which is used without being installed."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

_LIMIT_S = 300
_INSIDE = "./usr/bin/promtool"


class NoPromtool(Exception):
    """Why there is none."""


def promtool() -> Path:
    """The tool; from the user's cache, or fetched into it, where it is not installed. Raises `NoPromtool`."""
    if installed := shutil.which("promtool"):
        return Path(installed)
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    tool = Path(caches, "offsite", "tools", "promtool")
    tool.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{tool}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not tool.exists():
            _fetch(tool)
    return tool


def _fetch(tool: Path) -> None:
    """apt checks the package against the signatures of its distribution."""
    with tempfile.TemporaryDirectory(dir=tool.parent, prefix=".promtool-") as work:
        _run(["apt-get", "-q", "download", "prometheus"], work)
        (package,) = Path(work).glob("*.deb")
        _run(["bash", "-c", f"set -o pipefail; dpkg-deb --fsys-tarfile {package.name} | tar -x {_INSIDE}"], work)
        Path(work, _INSIDE).rename(tool)


def _run(command: list[str], folder: str) -> None:
    try:
        subprocess.run(
            command, cwd=folder, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=_LIMIT_S
        )
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise NoPromtool(f"promtool is not installed, and apt-get cannot fetch it: {said}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoPromtool(f"promtool is not installed, and cannot be fetched: {error}") from error
