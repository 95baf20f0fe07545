"""The process that reads mutants: it may hang, die or take too much memory, and whoever started it lives on.

    python -m tests.fuzz.worker SECONDS MEMORY_BYTES

A line in, `target seed index`; a line out, the verdict as JSON. It reads many mutants, so that one costs milliseconds.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import resource
import sys
from dataclasses import asdict
from functools import cache
from time import process_time

from tests.fuzz.judge import judge
from tests.fuzz.limits import Limits
from tests.fuzz.mutation import mutant
from tests.fuzz.planted import PLANTED
from tests.fuzz.reading import Reading
from tests.fuzz.target import Target
from tests.fuzz.targets import BOMB_TARGETS, TARGETS

_TRACE_AT = 0.9
"""Of its time: where a mutant is by then is written down, before whoever waits for it ends the process."""
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024


@cache
def prepared(name: str) -> tuple[Target, Reading]:
    """The target and what it holds unchanged."""
    target = (TARGETS | BOMB_TARGETS | PLANTED)[name]()
    return target, target.read(target.files)


def main() -> None:
    limits = Limits.of(sys.argv[1:])
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    logging.disable(logging.CRITICAL)
    for line in sys.stdin:
        name, seed, index = line.split()
        prepared(name)
        answers.write(json.dumps({"begun": int(index)}) + "\n")
        answers.write(json.dumps(_judged(name, int(seed), int(index), limits)) + "\n")


def _judged(name: str, seed: int, index: int, limits: Limits) -> dict[str, object]:
    target, truth = prepared(name)
    files = mutant(target, name=name, seed=seed, index=index)
    _limit_memory(limits.memory_bytes)
    started_s = process_time()
    faulthandler.dump_traceback_later(limits.patience_s * _TRACE_AT)
    verdict = judge(target, truth, files)
    faulthandler.cancel_dump_traceback_later()
    return {**asdict(verdict), "seconds": process_time() - started_s, "peak_bytes": _peak_bytes()}


@cache
def _limit_memory(memory_bytes: int) -> None:
    """Once, when it is all imported: more than that on top cannot be had, whatever a mutant claims."""
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_DATA, (_data_bytes() + memory_bytes,) * 2)


def _data_bytes() -> int:
    return _status_bytes("VmData")


def _peak_bytes() -> int:
    """Of this program alone: on Linux what a process was before it became another counts in its resource usage."""
    if sys.platform == "linux":
        return _status_bytes("VmHWM")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT


def _status_bytes(name: str) -> int:
    with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123  (no path of a file)
        (line,) = (line for line in status if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    main()
