"""CPU time of processes and their descendants, from /proc; and whether one of them rests. Linux only."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PARENT, _CPU = 1, slice(11, 13)  # positions in /proc/PID/stat behind the name
_CPU_WITH_ENDED_CHILDREN = slice(11, 15)

IDLE_LOOK_S = 0.25
IDLE_SHARE = 0.06
IDLE_LIMIT_S = 20.0  # then it is busy with something that does not end, and the measuring goes on


def own_cpu_s(*, without: Collection[int]) -> float:
    """Of this process and all it started that still run (and what those waited for), but not of `without`."""
    stats = _all_stats()
    mine = _cpu_s(stats[os.getpid()], _CPU)
    return mine + sum(_cpu_s(stats[pid], _CPU_WITH_ENDED_CHILDREN) for pid in _descendants(stats, without))


def process_cpu_s(pid: int) -> float:
    return _cpu_s(_all_stats()[pid], _CPU)


def wait_until_idle(pid: int) -> None:
    """Return when the process uses next to no CPU: deletions, flushes and compilations are over."""
    deadline_s = time.monotonic() + IDLE_LIMIT_S
    before_s = process_cpu_s(pid)
    while time.monotonic() < deadline_s:
        time.sleep(IDLE_LOOK_S)
        now_s = process_cpu_s(pid)
        if now_s - before_s < IDLE_SHARE * IDLE_LOOK_S:
            return
        before_s = now_s


def _descendants(stats: dict[int, list[str]], without: Collection[int]) -> list[int]:
    found, generation = [], [os.getpid()]
    while generation:
        parents = {str(pid) for pid in generation}
        generation = [pid for pid, stat in stats.items() if stat[_PARENT] in parents and pid not in without]
        found += generation
    return found


def _all_stats() -> dict[int, list[str]]:
    stats = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stats[int(entry.name)] = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended meanwhile
    return stats


def _cpu_s(stat: list[str], which: slice) -> float:
    return sum(int(ticks) for ticks in stat[which]) / _TICKS_PER_S
