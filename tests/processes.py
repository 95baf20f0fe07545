"""Which processes are there, and where do they listen: read from /proc, for tests that must leave nothing behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

PATIENCE_S = 60.0


def wait_until(condition: Callable[[], bool], what: str, *, limit_s: float = PATIENCE_S) -> None:
    deadline_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline_s, f"waited {limit_s} s for: {what}"
        time.sleep(0.02)


def processes_with(variable: str, value: str) -> dict[int, str]:
    """Process id to command line of the living processes that have `variable=value` in their environment."""
    wanted = f"{variable}={value}".encode()
    return {pid: command for pid, environment, command in _processes() if wanted in environment.split(b"\0")}


def is_alive(pid: int) -> bool:
    """A process that has ended and waits for its parent to notice is not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it may end between the opening of the file and the reading
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def listening_addresses(pid: int) -> set[str]:
    """IPv4 and IPv6 addresses, as /proc writes them, that a process listens on with TCP."""
    return {place.partition(":")[0] for place in _listening(pid)}


def listening_ports(pid: int) -> set[int]:
    return {int(place.partition(":")[2], 16) for place in _listening(pid)}


def _processes() -> Iterator[tuple[int, bytes, str]]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes()
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # ended meanwhile, or another user's
        if environment:
            yield int(folder.name), environment, command


def _links(pid: int) -> Iterator[str]:
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            yield str(link.readlink())
        except OSError:
            continue


def _listening(pid: int) -> set[str]:
    inodes = {link for link in _links(pid) if link.startswith("socket:[")}
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
    ]
    return {row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes}
