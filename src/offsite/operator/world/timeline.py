"""The decisions about the times of a schedule: numbered, create-only, the newest kept. In the store of the home.

The creator of number n+1 has decided. An operator with an older observation finds the number taken, and observes again.
Hence exactly one of any number of operators decides a time, and no operator decides on an outdated state. Old decisions
are deleted: after a long sleep an operator finds its number free, and sees after its write a higher number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from offsite.model.bounds import MAX_COMMIT_TIME_MS, whole_number
from offsite.model.errors import DamagedObject
from offsite.model.ids import random_id
from offsite.operator.decide.schedule import DecisionKind, TimeDecision
from offsite.operator.decide.wanted import RepositoryPlace
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.stores.store import PutResult, Store

PREFIX = "operator/schedules/"
KEPT_DECISIONS = 250
"""Decisions that are kept: more than a status ever shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTarget:
    """The low-level backup of a run, and the name of the cluster that the command needs."""

    place: RepositoryPlace
    backup: str
    cluster: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipReason:
    """The reason for no run now. A due time is skipped."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDecision:
    """Decision number `seq`. `target`: the subject of a fired time."""

    seq: int
    decision: TimeDecision
    target: RunTarget | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The decisions about the schedule with that uid. Raises `BadName` for an invalid uid."""

    store: Store
    uid: str

    @property
    def prefix(self) -> str:
        return f"{PREFIX}{DeclaredLayout(uid=self.uid).uid}/"

    def newest_first(self) -> Iterator[RecordedDecision]:
        """Read the decisions, newest first. Raises `DamagedObject`, and the errors of the store, like all methods."""
        for seq in reversed(self._numbers()):
            if (data := self.store.get(self._key(seq))) is not None:
                yield _recorded(data, self._key(seq))

    def append(self, decision: TimeDecision, target: RunTarget | None, *, behind: int) -> bool:
        """Append `decision` after decision number `behind` (0: none); return False if another operator was first."""
        seq = behind + 1
        data = encode_object(
            {
                "format": FORMAT,
                "seq": seq,
                "time_ms": decision.time_ms,
                "kind": decision.kind.value,
                "left_out": decision.left_out,
                "timetable": decision.timetable,
                "reason": decision.reason,
                "account": target.place.account if target else "",
                "repository": target.place.repository if target else "",
                "backup": target.backup if target else "",
                "cluster": target.cluster if target else "",
                "word": random_id(16),
            }
        )
        is_ours = self.store.put_if_absent(self._key(seq), data) is not PutResult.OTHER
        return is_ours and self._numbers()[-1:] == [seq]

    def prune(self, *, but: int) -> None:
        """Delete the oldest decisions, except number `but` and later ones."""
        for seq in [number for number in self._numbers()[:-KEPT_DECISIONS] if number < but]:
            self.store.delete(self._key(seq))

    def _numbers(self) -> list[int]:
        names = (info.key.removeprefix(self.prefix).removesuffix(".json") for info in self.store.list(self.prefix))
        return sorted(number for name in names if (number := whole_number(name)) is not None)

    def _key(self, seq: int) -> str:
        return f"{self.prefix}{seq:012d}.json"


def _recorded(data: bytes, key: str) -> RecordedDecision:
    document = parse_json_object(data, source=key, damaged=DamagedObject)
    kind = document.member("kind", DecisionKind)
    place = RepositoryPlace(account=document.text("account"), repository=document.text("repository"))
    return RecordedDecision(
        seq=document.count("seq"),
        decision=TimeDecision(
            time_ms=document.integer("time_ms", least=0, most=MAX_COMMIT_TIME_MS),
            kind=kind,
            left_out=document.count("left_out"),
            timetable=document.optional_text("timetable") or "",
            reason=document.optional_text("reason") or "",
        ),
        target=RunTarget(place=place, backup=document.text("backup"), cluster=document.text("cluster"))
        if kind is DecisionKind.FIRED
        else None,
    )
