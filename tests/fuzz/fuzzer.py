"""Runs mutants in a worker process, gives each its time and memory, and says which ones ended as none may."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Self

from tests.fuzz.judge import ALLOWED, Outcome
from tests.fuzz.limits import Limits

_ENDED = "ENDED"
_ROOT = Path(__file__).resolve().parents[2]
_START_S = 60.0
_ENDED_MAX = 5
"""Of mutants that end the worker, which takes seconds: more of one target need not be seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    target: str
    seed: int
    index: int
    cause: str
    trace: str

    def __str__(self) -> str:
        again = f"python -m tests.fuzz {self.target} {self.seed} {self.index}"
        return f"{self.cause}\n  again: {again}\n{self.trace}"


@dataclass(slots=True, kw_only=True)
class Round:
    """What mutants of one target came to. `failures` has the first one of each cause, `causes` how many there are.
    `slowest_s` and `peak_bytes` of any of them."""

    target: str
    outcomes: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    slowest_s: float = 0.0
    peak_bytes: int = 0

    def add(self, failure: Failure) -> None:
        if failure.cause not in self.causes:
            self.failures.append(failure)
        self.causes[failure.cause] += 1

    def report(self) -> str:
        """Each cause with its first mutant, and how to see it again."""
        return "\n\n".join(f"{self.causes[each.cause]} mutants of {self.target}: {each}" for each in self.failures)


class WorkerEndedError(Exception):
    """The worker died, or was killed because its time was over."""


class Fuzzer:
    """Owns one worker at a time; a context manager, which leaves none behind."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._worker: subprocess.Popen[bytes] | None = None
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  (closed by `__exit__`)
        self._unread = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kill()
        self._said.close()

    def run(self, target: str, *, seed: int, indexes: Iterable[int]) -> Round:
        done = Round(target=target)
        for index in indexes:
            outcome, failure = self._run_one(done, target, seed, index)
            done.outcomes[outcome] += 1
            if failure is not None:
                done.add(failure)
            if done.outcomes[_ENDED] >= _ENDED_MAX:
                break
        return done

    def _run_one(self, done: Round, target: str, seed: int, index: int) -> tuple[str, Failure | None]:
        try:
            told = self._ask(target, seed, index)
        except WorkerEndedError as error:
            cause = str(error)
            return _ENDED, Failure(target=target, seed=seed, index=index, cause=cause, trace=self._last_words())
        done.slowest_s, done.peak_bytes = max(done.slowest_s, told["seconds"]), max(done.peak_bytes, told["peak_bytes"])
        cause, outcome = told["cause"], Outcome(told["outcome"])
        if told["peak_bytes"] > self._limits.memory_bytes:
            self._kill()  # its peak would be blamed on the next one as well
            cause = f"took {told['peak_bytes'] >> 20} MiB, and then: {outcome}"
        elif told["seconds"] > self._limits.seconds:
            cause = f"took {told['seconds']:.0f} s, and then: {outcome}"
        elif outcome in ALLOWED:
            return outcome.name, None
        failed = Failure(target=target, seed=seed, index=index, cause=cause, trace=told["trace"])
        return outcome.name, failed

    def _ask(self, target: str, seed: int, index: int) -> dict[str, Any]:
        worker = self._started()
        assert worker.stdin is not None
        worker.stdin.write(f"{target} {seed} {index}\n".encode())
        worker.stdin.flush()
        self._line(_START_S)
        answer: dict[str, Any] = json.loads(self._line(self._limits.patience_s))
        return answer

    def _line(self, seconds: float) -> bytes:
        """The next line of the worker. Raises `WorkerEndedError` when there is none in time."""
        assert self._worker is not None
        assert self._worker.stdout is not None
        deadline_s = monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._worker.stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if not selector.select(max(0.0, deadline_s - monotonic())):
                    self._kill()
                    raise WorkerEndedError(f"no end within {seconds:.0f} s")
                more = os.read(self._worker.stdout.fileno(), 1 << 16)
                if not more:
                    code = self._worker.wait()
                    self._kill()
                    raise WorkerEndedError(f"the process died with {code}")
                self._unread += more
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _started(self) -> subprocess.Popen[bytes]:
        if self._worker is None:
            self._said.seek(0)
            self._said.truncate()
            self._unread = b""
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT), *sys.path])}
            self._worker = subprocess.Popen(
                [sys.executable, "-m", "tests.fuzz.worker", *self._limits.arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                cwd=_ROOT,
                env=environment,
            )
        return self._worker

    def _kill(self) -> None:
        if self._worker is None:
            return
        self._worker.kill()
        self._worker.wait()
        for pipe in (self._worker.stdin, self._worker.stdout):
            if pipe is not None:
                pipe.close()
        self._worker = None

    def _last_words(self) -> str:
        """The end of what it wrote: its trace, where it hung or died."""
        self._said.seek(0)
        return self._said.read().decode(errors="replace")[-3000:]
