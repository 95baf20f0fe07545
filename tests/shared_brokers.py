"""The brokers that all tests of a process share: started for the first one that asks, ended when no more asks soon."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from offsite.sandbox import Sandbox, SandboxInfo, SandboxSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """`more` is what else belongs to it."""

    sandbox: Sandbox
    info: SandboxInfo
    more: Any = None


QUIET = SandboxSettings(
    properties={
        "broker.session.timeout.ms": "9000",
        "broker.heartbeat.interval.ms": "2000",
        "metadata.max.idle.interval.ms": "0",
        "num.network.threads": "1",
        "num.io.threads": "2",
        "background.threads": "2",
    }
)
"""A single broker that is never killed: idle, it takes 2 % of a core, and otherwise 3 %, for all of a run."""

ALL = ("broker", "second_broker", "secure_broker", "three_brokers")
_running: dict[str, Running] = {}


def shared(name: str, start: Callable[[], Running]) -> Running:
    assert name in ALL
    if name not in _running:
        _running[name] = start()
    return _running[name]


def started(folder: Path, settings: SandboxSettings = QUIET, *, more: object = None) -> Running:
    sandbox = Sandbox(folder)
    return Running(sandbox=sandbox, info=sandbox.start(settings=settings, owned=True), more=more)


def end_shared(names: Iterable[str] = ALL) -> None:
    """By force: what is in them is of no use to anybody."""
    for name in names:
        if name in _running:
            running = _running.pop(name)
            running.sandbox.kill()
            running.sandbox.stop()


@contextmanager
def running(folder: Path, settings: SandboxSettings = SandboxSettings()) -> Iterator[tuple[Sandbox, SandboxInfo]]:
    """One for a test of its own."""
    sandbox = Sandbox(folder)
    try:
        yield sandbox, sandbox.start(settings=settings, owned=True)
    finally:
        sandbox.stop()
