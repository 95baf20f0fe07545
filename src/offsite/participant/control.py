"""The control topic: what whoever opens a checkpoint and the participants tell each other, and what follows from it.

One partition, kept for ever, so it is one order of all that was said. Its records are JSON:

| kind | who | fields |
|---|---|---|
| `open` | the opener | `id`, `form` |
| `join`, `beat`, `leave` | a participant of form B | `participant`, `session`, `lease_ms` |
| `ack` | a participant of form B | `participant`, `session`, `lease_ms`, `id` |

A session says that it is alive with all but `leave`. So what is older than an opening that all have acknowledged may be
deleted: those who were there have said so since, and so will who came later.

Kinds that are not known are passed over; a higher version stops the reader, and so does a record that is none: it may
be the opening of a checkpoint. Pure: reading times come in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from offsite.participant.errors import UnknownVersion, Unreadable
from offsite.participant.number import MAX_NUMBER, Form

CONTROL_TOPIC = "offsite-checkpoints"
CONTROL_PARTITION = 0
CONTROL_TOPIC_CONFIG = MappingProxyType({"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"})

MAX_RECORD_BYTES = 4_096
MAX_NAME = 200
MIN_LEASE_MS = 100
MAX_LEASE_MS = 600_000
"""Ten minutes: so long may a participant that died hold up a checkpoint."""

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """Checkpoint `id` begins."""

    id: int
    form: Form


class Sign(StrEnum):
    JOIN = "join"
    BEAT = "beat"
    LEAVE = "leave"


@dataclass(frozen=True, slots=True, order=True)
class Session:
    """One stay of a participant: another one each time it joins."""

    participant: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """A sign of life of a session, or of its end; its lease lasts `lease_ms` from here."""

    sign: Sign
    session: Session
    lease_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Acked:
    """All that the session stamped with less than `id` is in its partitions. It is a sign of life as well."""

    session: Session
    id: int
    lease_ms: int


ControlRecord = Opened | Presence | Acked


def format_record(record: ControlRecord) -> bytes:
    """The value of its Kafka record; the key is null. Raises `ValueError` for what `parse_record` would refuse."""
    data = json.dumps({"version": _VERSION, **_fields(record)}, separators=(",", ":")).encode()
    if parse_record(data) != record:
        raise ValueError(f"{record} cannot be said in the control topic")
    return data


def parse_record(value: bytes | None) -> ControlRecord | None:
    """None if its kind is not known. Raises `UnknownVersion`, and `Unreadable` for what is no record of this topic."""
    data = _object(value)
    version = _integer(data, "version", least=1)
    if version > _VERSION:
        raise UnknownVersion(f"a record of the control topic has version {version}; this offsite knows {_VERSION}")
    match data.get("kind"):
        case "open":
            return Opened(id=_integer(data, "id", least=1), form=_form(data))
        case "join" | "beat" | "leave" as sign:
            return Presence(sign=Sign(sign), session=_session(data), lease_ms=_lease_ms(data))
        case "ack":
            return Acked(session=_session(data), id=_integer(data, "id", least=1), lease_ms=_lease_ms(data))
        case str():
            return None
    raise Unreadable("a record of the control topic has no kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """What is known of a session that has not left: its lease, until when that lasts by the reader's clock, and the
    highest id that it acknowledged. One that joined after an opening need not acknowledge it: it reads the topic to its
    end before it produces."""

    lease_ms: int
    until_ms: int
    acked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlState:
    """What the records so far say. `stays` has sessions whose lease ran out as well: ask with the time of now."""

    newest: int = 0
    """The highest id ever opened; 0 for none."""

    newest_by_acks: int = 0
    """The highest id opened in form B."""

    stays: Mapping[Session, Stay] = field(default_factory=dict)

    def after(self, record: ControlRecord | None, *, read_at_ms: int) -> ControlState:
        """The state after `record`, which was read at `read_at_ms` of a clock that never goes back. A lease counts from
        there and not from when it was written: clocks of others are not believed."""
        match record:
            case Opened():
                by_acks = record.id if record.form is Form.ACKS else 0
                newest, newest_by_acks = max(self.newest, record.id), max(self.newest_by_acks, by_acks)
                return replace(self, newest=newest, newest_by_acks=newest_by_acks)
            case Presence(sign=Sign.LEAVE):
                return replace(self, stays={each: stay for each, stay in self.stays.items() if each != record.session})
            case Presence():
                return self._with(record.session, self._stay(record, read_at_ms=read_at_ms))
            case Acked():
                stay = self._stay(record, read_at_ms=read_at_ms)
                return self._with(record.session, replace(stay, acked=max(stay.acked, record.id)))
        return self

    def alive(self, *, now_ms: int) -> frozenset[Session]:
        """The sessions whose lease lasts at `now_ms`, by the clock of `read_at_ms`."""
        return frozenset(each for each, stay in self.stays.items() if now_ms < stay.until_ms)

    def missing(self, checkpoint: int, *, now_ms: int) -> frozenset[Session]:
        """Those who are alive and have not acknowledged `checkpoint`: its opener waits until there is none."""
        return frozenset(each for each in self.alive(now_ms=now_ms) if self.stays[each].acked < checkpoint)

    def lapsed(self, *, now_ms: int) -> Iterator[Session]:
        """Those who neither left nor beat in time; whoever runs for long forgets them with `without`."""
        yield from (each for each, stay in self.stays.items() if stay.until_ms <= now_ms)

    def without(self, sessions: frozenset[Session]) -> ControlState:
        return replace(self, stays={each: stay for each, stay in self.stays.items() if each not in sessions})

    def _with(self, session: Session, stay: Stay) -> ControlState:
        return replace(self, stays={**self.stays, session: stay})

    def _stay(self, sign: Presence | Acked, *, read_at_ms: int) -> Stay:
        """A beat of a session whose join is not known counts as its join, but says nothing of when it joined."""
        until_ms, known = read_at_ms + sign.lease_ms, self.stays.get(sign.session)
        if known is not None:
            return replace(known, lease_ms=sign.lease_ms, until_ms=max(until_ms, known.until_ms))
        is_join = isinstance(sign, Presence) and sign.sign is Sign.JOIN
        return Stay(lease_ms=sign.lease_ms, until_ms=until_ms, acked=self.newest if is_join else 0)


def _fields(record: ControlRecord) -> dict[str, str | int]:
    match record:
        case Opened():
            return {"kind": "open", "id": record.id, "form": record.form.value}
        case Presence():
            return {"kind": record.sign.value, **_session_fields(record.session), "lease_ms": record.lease_ms}
        case Acked():
            return {
                "kind": "ack",
                **_session_fields(record.session),
                "lease_ms": record.lease_ms,
                "id": record.id,
            }


def _session_fields(session: Session) -> dict[str, str | int]:
    return {"participant": session.participant, "session": session.id}


def _object(value: bytes | None) -> dict[str, object]:
    if value is None or len(value) > MAX_RECORD_BYTES:
        raise Unreadable("a record of the control topic is empty or too long")
    try:
        data = json.loads(value)
    except (ValueError, RecursionError) as problem:
        raise Unreadable("a record of the control topic is no JSON") from problem
    if not isinstance(data, dict):
        raise Unreadable("a record of the control topic is no JSON object")
    return data


def _integer(data: Mapping[str, object], name: str, *, least: int, most: int = MAX_NUMBER) -> int:
    value = data.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise Unreadable(f"a record of the control topic has no {name} that can be")
    return value


def _lease_ms(data: Mapping[str, object]) -> int:
    return _integer(data, "lease_ms", least=MIN_LEASE_MS, most=MAX_LEASE_MS)


def _form(data: Mapping[str, object]) -> Form:
    form = data.get("form")
    if not isinstance(form, str) or form not in set(Form):
        raise Unreadable("a record of the control topic opens a checkpoint in a form that is not known")
    return Form(form)


def _session(data: Mapping[str, object]) -> Session:
    return Session(_name(data, "participant"), _name(data, "session"))


def _name(data: Mapping[str, object], name: str) -> str:
    value = data.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME or not value.isprintable():
        raise Unreadable(f"a record of the control topic has no {name} that can be")
    return value
