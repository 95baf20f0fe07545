"""The decisions about the times of a schedule: numbered, create-only, the newest kept. In the store of the home.

The creator of number n+1 has decided. An operator with an older observation finds the number taken, and observes again.
Hence exactly one of any number of operators decides a time, and no operator decides on an outdated state. Old decisions
are deleted: after a long sleep an operator finds its number free, and sees after its write a higher number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from offsite.model.errors import DamagedObject
from offsite.model.ids import random_id
from offsite.model.untrusted.bounds import MAX_COMMIT_TIME_MS
from offsite.model.untrusted.whole_number import whole_number
from offsite.operator.decide.schedule import DecisionKind, TimeDecided
from offsite.operator.decide.wanted import Place
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.stores.store import PutResult, Store

PREFIX = "operator/schedules/"
KEPT = 250
"""Decisions that are kept: more than a status ever shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The low-level backup of a run, and the name of the cluster that the command needs."""

    place: Place
    backup: str
    cluster: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotNow:
    """The reason for no run now. A due time is skipped."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """Decision number `seq`. `target`: the subject of a fired time."""

    seq: int
    decided: TimeDecided
    target: Target | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The decisions about the schedule with that uid. Raises `BadName` for an invalid uid."""

    store: Store
    uid: str

    @property
    def prefix(self) -> str:
        return f"{PREFIX}{DeclaredLayout(uid=self.uid).uid}/"

    def newest_first(self) -> Iterator[Recorded]:
        """Read the decisions, newest first. Raises `DamagedObject`, and the errors of the store, like all methods."""
        for seq in reversed(self._numbers()):
            if (data := self.store.get(self._key(seq))) is not None:
                yield _recorded(data, self._key(seq))

    def append(self, decided: TimeDecided, target: Target | None, *, behind: int) -> bool:
        """Append `decision` after decision number `behind` (0: none); return False if another operator was first."""
        seq = behind + 1
        data = encode_object(
            {
                "format": FORMAT,
                "seq": seq,
                "time_ms": decided.time_ms,
                "kind": decided.kind.value,
                "left_out": decided.left_out,
                "timetable": decided.timetable,
                "reason": decided.reason,
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
        for seq in [each for each in self._numbers()[:-KEPT] if each < but]:
            self.store.delete(self._key(seq))

    def _numbers(self) -> list[int]:
        names = (info.key.removeprefix(self.prefix).removesuffix(".json") for info in self.store.list(self.prefix))
        return sorted(number for name in names if (number := whole_number(name)) is not None)

    def _key(self, seq: int) -> str:
        return f"{self.prefix}{seq:012d}.json"


def _recorded(data: bytes, key: str) -> Recorded:
    item = parse_json_object(data, source=key, damaged=DamagedObject)
    kind = item.member("kind", DecisionKind)
    place = Place(account=item.text("account"), repository=item.text("repository"))
    return Recorded(
        seq=item.count("seq"),
        decided=TimeDecided(
            time_ms=item.integer("time_ms", least=0, most=MAX_COMMIT_TIME_MS),
            kind=kind,
            left_out=item.count("left_out"),
            timetable=item.optional_text("timetable") or "",
            reason=item.optional_text("reason") or "",
        ),
        target=Target(place=place, backup=item.text("backup"), cluster=item.text("cluster"))
        if kind is DecisionKind.FIRED
        else None,
    )
