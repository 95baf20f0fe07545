"""Targets with faults that the fuzzer must find, and some without that it must not take for faults."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping

from offsite.model.errors import DamagedObject, check
from tests.fuzz.reading import Reading
from tests.fuzz.target import Files, Target, Trust

_FILES: Files = {"file": b"some bytes that nobody believes in"}
_kept: list[bytearray] = []


def _whole(files: Files) -> bool:
    return files == _FILES


def _raise(_: Files) -> str:
    raise ValueError("not of our tree")


def _break(_: Files) -> str:
    check(condition=False, message="an invariant")
    return ""


def _hang(_: Files) -> str:
    time.sleep(3600)
    return ""


def _toil(_: Files) -> str:
    started_s = time.process_time()
    while time.process_time() < started_s + 0.4:
        pass
    return "right"


def _die(_: Files) -> str:
    os.kill(os.getpid(), signal.SIGSEGV)
    return ""


def _claim(_: Files) -> str:
    return str(len(bytearray(1 << 40)))


def _hoard(_: Files) -> str:
    _kept.extend(bytearray(b"x" * (1 << 20)) for _ in range(370))
    return "right"


def _deny(_: Files) -> str:
    raise DamagedObject("it is named")


def _say(_: Files) -> str:
    return "other"


def _repair(_: Files) -> str:
    return "right"


_READERS: Mapping[str, Callable[[Files], str]] = {
    "raises": _raise,
    "breaks": _break,
    "hangs": _hang,
    "toils": _toil,
    "dies": _die,
    "claims": _claim,
    "hoards": _hoard,
    "denies": _deny,
    "lies": _say,
    "admits": _say,
    "repairs": _repair,
}


def _target(name: str) -> Target:
    def read(files: Files) -> Reading:
        found = Reading()
        with found.part():
            found.data["all"] = "right" if _whole(files) else _READERS[name](files)
        if name == "admits":
            found.hear(["Nothing vouches for this"])
        return found

    return Target(files=_FILES, read=read, trust=Trust.HASHED)


def _named(name: str) -> Callable[[], Target]:
    return lambda: _target(name)


PLANTED = {f"planted-{name}": _named(name) for name in _READERS}
