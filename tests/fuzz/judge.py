"""How reading one mutant ended, and whether it may end like that."""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import offsite
from tests.fuzz.reading import Reading
from tests.fuzz.target import Files, Target, Trust

_OWN = str(Path(offsite.__file__).parent)
_NO_CAUSE = frozenset({"check", "check_key"})


class Outcome(StrEnum):
    """The first four may be; a hang, a death of the process or too much memory are seen from outside of it."""

    RIGHT = "the same data"
    NAMED = "damage or an error with a name"
    VOUCHLESS = "other data, and the result says that nothing vouches for it"
    OTHER = "other data of which nothing more can be asked: hashes made anew, or a broker's message"
    SILENT = "other data in silence"
    RAW = "an error that is not of offsite's tree, or its own bug"


ALLOWED = frozenset({Outcome.RIGHT, Outcome.NAMED, Outcome.VOUCHLESS, Outcome.OTHER})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`cause` groups failures that are likely one: what went wrong, and the last line of offsite in its trace."""

    outcome: Outcome
    cause: str = ""
    trace: str = ""


def judge(target: Target, truth: Reading, files: Files) -> Verdict:
    """Read `files`, a mutant of the target, and compare it with what the target itself holds."""
    try:
        found = target.read(files)
    except Exception as error:  # noqa: BLE001  (which ones come is the question)
        return Verdict(outcome=Outcome.RAW, cause=_cause(error), trace=traceback.format_exc(limit=-12))
    return _compared(target, truth, found, [key for key in sorted(target.files) if target.files[key] != files.get(key)])


def _compared(target: Target, truth: Reading, found: Reading, changed: Sequence[str]) -> Verdict:
    if named := [each for each in found.named if each not in truth.named]:
        return Verdict(outcome=Outcome.NAMED, cause=named[0][:200])
    others = sorted(part for part in truth.data if found.data.get(part) != truth.data[part])
    if not others:
        return Verdict(outcome=Outcome.RIGHT)
    if target.trust in {Trust.RENEWED, Trust.WIRE}:
        return Verdict(outcome=Outcome.OTHER)
    if found.unvouched and all(map(target.doubted, changed)):
        return Verdict(outcome=Outcome.VOUCHLESS)
    cause = f"silent change of {_kinds(changed)}"
    return Verdict(outcome=Outcome.SILENT, cause=cause, trace=_differences(truth, found))


def _kinds(changed: Sequence[str]) -> str:
    """Files without what is a number in their names: the kind is what a fault depends on."""
    return ", ".join(dict.fromkeys(re.sub(r"[0-9a-f]{8}(?=\.)|\d+", "#", key) for key in changed))


def _cause(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.name not in _NO_CAUSE]
    own = [frame for frame in frames if frame.filename.startswith(_OWN)]
    last = own[-1] if own else frames[-1]
    place = last.filename.removeprefix(f"{_OWN}/").rpartition("/tests/")[2]
    return f"{type(error).__name__} in {place}:{last.name}"


def _differences(truth: Reading, found: Reading) -> str:
    parts = [part for part in truth.data if found.data.get(part) != truth.data[part]]
    return "\n".join(f"{part}: {_around(truth.data[part], found.data.get(part))}" for part in parts)


def _around(before: object, after: object) -> str:
    """Where the two begin to differ."""
    first, second = repr(before), repr(after)
    pairs = enumerate(zip(first, second, strict=False))
    at = next((at for at, (one, other) in pairs if one != other), min(len(first), len(second)))
    start = max(0, at - 60)
    return f"…{first[start : at + 80]}… became …{second[start : at + 80]}…"
