"""The control topic: messages between openers of checkpoints and participants, and their consequences.

A single partition, kept for ever, gives all records a single order. The records are JSON:

| kind | who | fields |
|---|---|---|
| `open` | the opener | `id`, `form` |
| `join`, `beat`, `leave` | a participant of form B | `participant`, `session`, `lease_ms` |
| `ack` | a participant of form B | `participant`, `session`, `lease_ms`, `id` |

Every kind but `leave` is a sign of life of its session. Records older than a fully acknowledged opening may therefore
be deleted: sessions present at the time have spoken since, and later sessions will.

Unknown kinds are skipped. A higher version stops the reader, and so does an invalid record: it may be the opening of a
checkpoint. Pure: reading times are arguments.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from offsite_participant.errors import UnknownVersion, Unreadable
from offsite_participant.number import MAX_NUMBER, Form

CONTROL_TOPIC = "offsite-checkpoints"
CONTROL_PARTITION = 0
CONTROL_TOPIC_CONFIG = MappingProxyType({"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"})

MAX_RECORD_BYTES = 4_096
MAX_NAME = 200
MIN_LEASE_MS = 100
MAX_LEASE_MS = 600_000
"""Ten minutes: the longest time that a dead participant may hold up a checkpoint."""

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRecord:
    """Checkpoint `id` begins."""

    id: int
    form: Form


class Sign(StrEnum):
    JOIN = "join"
    BEAT = "beat"
    LEAVE = "leave"


@dataclass(frozen=True, slots=True, order=True)
class Session:
    """A stay of a participant: a new session for every join."""

    participant: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SignRecord:
    """A sign of life or end of a session; its lease lasts `lease_ms` from here."""

    sign: Sign
    session: Session
    lease_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AckRecord:
    """Everything that the session stamped with less than `id` is in its partitions. Also a sign of life."""

    session: Session
    id: int
    lease_ms: int


ControlRecord = OpenRecord | SignRecord | AckRecord


def format_record(record: ControlRecord) -> bytes:
    """The value of the Kafka record; the key is null. Raises `ValueError` for a record that `parse_record` would
    refuse."""
    data = json.dumps({"version": _VERSION, **_fields(record)}, separators=(",", ":")).encode()
    if parse_record(data) != record:
        raise ValueError(f"{record} cannot be said in the control topic")
    return data


def parse_record(value: bytes | None) -> ControlRecord | None:
    """Parse a record; None for an unknown kind. Raises `UnknownVersion`, and `Unreadable` for a value that is no record
    of the topic."""
    data = _object(value)
    version = _integer(data, "version", least=1)
    if version > _VERSION:
        raise UnknownVersion(f"a record of the control topic has version {version}; this offsite knows {_VERSION}")
    match data.get("kind"):
        case "open":
            return OpenRecord(id=_integer(data, "id", least=1), form=_form(data))
        case "join" | "beat" | "leave" as sign:
            return SignRecord(sign=Sign(sign), session=_session(data), lease_ms=_lease_ms(data))
        case "ack":
            return AckRecord(session=_session(data), id=_integer(data, "id", least=1), lease_ms=_lease_ms(data))
        case str():
            return None
    raise Unreadable("a record of the control topic has no kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """A session that has not left: the lease, the end of the lease by the reader's clock, and the highest acknowledged
    id. A session that joined after an opening need not acknowledge the opening: the session reads the topic to the end
    before producing."""

    lease_ms: int
    until_ms: int
    acked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlState:
    """The sum of the records so far. `stays` includes sessions with a lapsed lease: ask with the current time."""

    newest: int = 0
    """The highest id ever opened; 0 for none."""

    newest_by_acks: int = 0
    """The highest id opened in form B."""

    stays: Mapping[Session, Stay] = field(default_factory=dict)

    def after(self, record: ControlRecord | None, *, read_at_ms: int) -> ControlState:
        """The state after `record`, read at `read_at_ms` of a clock that never goes back. A lease counts from the
        reading and not from the writing: foreign clocks are not believed."""
        match record:
            case OpenRecord():
                by_acks = record.id if record.form is Form.ACKS else 0
                newest, newest_by_acks = max(self.newest, record.id), max(self.newest_by_acks, by_acks)
                return replace(self, newest=newest, newest_by_acks=newest_by_acks)
            case SignRecord(sign=Sign.LEAVE):
                return replace(
                    self, stays={session: stay for session, stay in self.stays.items() if session != record.session}
                )
            case SignRecord():
                return self._with(record.session, self._stay(record, read_at_ms=read_at_ms))
            case AckRecord():
                stay = self._stay(record, read_at_ms=read_at_ms)
                return self._with(record.session, replace(stay, acked=max(stay.acked, record.id)))
        return self

    def alive(self, *, now_ms: int) -> frozenset[Session]:
        """The sessions whose lease lasts at `now_ms`, by the clock of `read_at_ms`."""
        return frozenset(session for session, stay in self.stays.items() if now_ms < stay.until_ms)

    def missing(self, checkpoint: int, *, now_ms: int) -> frozenset[Session]:
        """The living sessions that have not acknowledged `checkpoint`: its opener waits until none is left."""
        return frozenset(session for session in self.alive(now_ms=now_ms) if self.stays[session].acked < checkpoint)

    def lapsed(self, *, now_ms: int) -> Iterator[Session]:
        """The sessions that neither left nor beat in time; a long-running reader forgets them with `without`."""
        yield from (session for session, stay in self.stays.items() if stay.until_ms <= now_ms)

    def without(self, sessions: frozenset[Session]) -> ControlState:
        return replace(self, stays={session: stay for session, stay in self.stays.items() if session not in sessions})

    def _with(self, session: Session, stay: Stay) -> ControlState:
        return replace(self, stays={**self.stays, session: stay})

    def _stay(self, sign: SignRecord | AckRecord, *, read_at_ms: int) -> Stay:
        """Update a stay. A beat of a session without a known join counts as its join, but says nothing about the time
        of the join."""
        until_ms, stay = read_at_ms + sign.lease_ms, self.stays.get(sign.session)
        if stay is not None:
            return replace(stay, lease_ms=sign.lease_ms, until_ms=max(until_ms, stay.until_ms))
        is_join = isinstance(sign, SignRecord) and sign.sign is Sign.JOIN
        return Stay(lease_ms=sign.lease_ms, until_ms=until_ms, acked=self.newest if is_join else 0)


def _fields(record: ControlRecord) -> dict[str, str | int]:
    match record:
        case OpenRecord():
            return {"kind": "open", "id": record.id, "form": record.form.value}
        case SignRecord():
            return {"kind": record.sign.value, **_session_fields(record.session), "lease_ms": record.lease_ms}
        case AckRecord():
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
        raise Unreadable("a record of the control topic is not JSON") from problem
    if not isinstance(data, dict):
        raise Unreadable("a record of the control topic is not a JSON object")
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
