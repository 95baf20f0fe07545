"""The rules of a participant, over small ports: no client, no thread, no time of its own.

The rules are those of `offsite_participant.bcs`, with the application as the process and the partitions as its
channels. A single invariant makes the cut consistent: **no record is handled before the participant has the number of
its writer, and none is produced with less than that number.** A number may therefore be too high at any time, and never
too low:

- The number rises between two records, never while a record is handled: all outputs of a record carry the same number.
- A partition read by another participant before, or with lost records, may have held a higher number. Every number is
  in the control topic before it is anywhere else: the topic is read to the end before the first record of an
  assignment, and after every gap. Committed offsets carry the number too: twice is safer.
- For the same reason a number missing in the control topic, after any number of readings, is none of ours: the number
  comes from another cluster, as after a restore, or from a stranger, and means nothing.
- A commit names its outputs. A backup drops the commit unless all of the outputs are present.
- If an output is missing, records handled since the last commit count as not handled, and are read again.

The core belongs to the single thread of the application, except for `beat`, `delivered` and `given_up`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from offsite_participant.control import ControlState, OpenRecord, parse_record
from offsite_participant.errors import ParticipantError
from offsite_participant.membership import Membership
from offsite_participant.number import (
    CommitNote,
    Form,
    Header,
    Stamp,
    TopicPartition,
    marker_of,
    number_of,
    parse_note,
    stamped,
)
from offsite_participant.ports import Clock, ControlLog, ControlRead, Group, Record
from offsite_participant.positions import ReadPositions, SentOutputs

OnCheckpoint = Callable[[int, Mapping[TopicPartition, int]], None]
OnLost = Callable[[Iterable[TopicPartition]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Callbacks to the application, in its own thread, within `poll()`.

    `on_checkpoint(number, positions)`: checkpoint `number` is being taken; `positions` are the next offsets to handle.
    A state saved now belongs to that checkpoint: the state must be fixed on return, however later it is stored. If the
    callback raises, for example because it cannot tell what a snapshot under way has seen, the checkpoint is not taken,
    and `poll()` tries again.
    `on_lost(partitions)`: records of the partitions handled since the last commit will be handled again, here or
    elsewhere.
    """

    on_checkpoint: OnCheckpoint = lambda _number, _positions: None
    on_lost: OnLost = lambda _partitions: None


class ParticipantCore:
    """`membership` None: form A."""

    def __init__(
        self,
        *,
        control: ControlLog,
        group: Group,
        clock: Clock,
        membership: Membership | None = None,
        hooks: Hooks = Hooks(),
    ) -> None:
        self._control = control
        self._group = group
        self._clock = clock
        self._membership = membership
        self._hooks = hooks
        self._reading = ReadPositions()
        self._writing = SentOutputs()
        self._opened = ControlState()
        self._control_end = 0
        self._control_last: bytes | None = None
        self._read_ms = 0
        self._acked = 0
        self._failure: ParticipantError | None = None
        self._due = 0
        self.number = 0
        self.beat = membership.beat if membership else lambda: None
        self.delivered, self.given_up = self._writing.delivered, self._writing.given_up

    def start(self) -> None:
        """Start: read the control topic to its end; form B joins first."""
        if self._membership:
            self._membership.join(self._read_control)
        else:
            self._read_control()

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Take more partitions, or the same partitions again."""
        self._reading.assign(partitions)

    def revoked(self, partitions: Iterable[TopicPartition]) -> None:
        gone = tuple(partitions)
        self._reading.revoke(gone)
        self._hooks.on_lost(gone)

    def tick(self) -> None:
        """Between two records: repair earlier failures; in form B, hear of checkpoints and acknowledge them."""
        self._recover()
        if self._membership and self._is_read_due(self._membership.read_every_ms):
            self._read_control()
            self._acknowledge(self._membership)

    def received(self, record: Record) -> bool:
        """Whether the application is to handle `record`; markers are not for the application. After an error the record
        is not handled: pass it once more."""
        self._learn_of_commits()
        if not self._reading.follows(record.where, record.offset):
            self._read_control()
        self._reading.at(record.where, record.offset)
        self._reach_if_opened(number_of(record.headers, record.topic, self._control.topic))
        self._reading.past(record.where, record.offset)
        return marker_of(record.key, record.value, record.headers, record.topic) is None

    def outgoing(self, headers: Iterable[Header] | None, topic: str) -> list[Header]:
        """The headers for a record to `topic` that goes to the producer now. Raises `LeaseLost`, and any failure that
        makes the outputs so far incomplete: nothing is sent afterwards until `tick`."""
        if self._failure is None and self._membership:
            self._failure = _caught(self._membership.check)
        if self._failure:
            raise self._failure
        form = Form.ACKS if self._membership else Form.MARKERS
        return stamped(headers, Stamp(self.number, form, topic, self._control.topic))

    def commit(self) -> None:
        """Flush, and commit the handled records with their outputs. Raises `NotDelivered` or `LeaseLost`: nothing is
        committed, and `tick` goes back. Raises `NotCommitted`: the next commit covers the same records."""
        self._flush()
        if self._failure:
            raise self._failure
        offsets = self._reading.uncommitted()
        if not offsets:
            return
        note = CommitNote(number=self.number, outputs=self._writing.outputs())
        self._group.commit(offsets, note.format())
        self._reading.committed(offsets)
        self._writing.committed()

    def stop(self) -> None:
        """Leave in form B, unless an output may still be on its way: such a lease runs out."""
        self._flush()
        if self._membership and self._failure is None:
            self._membership.leave()

    def _recover(self) -> None:
        self._failure = self._failure or self._writing.settle()
        is_member = self._membership is None or self._membership.holds
        if self._failure is None and is_member:
            return
        self._flush()
        if self._membership:
            self.start()
        if self._failure:
            self._go_back()
            self._failure = None

    def _go_back(self) -> None:
        """Go back. Until everything is done, everything remains to be done."""
        back = self._reading.back()
        self._group.seek(back)
        self._hooks.on_lost(tuple(back))
        self._reading.went_back(back)

    def _acknowledge(self, membership: Membership) -> None:
        """Acknowledge a checkpoint. After a given-up output, which may still arrive, the session says nothing more: the
        lease runs out, and `_recover` begins another session."""
        checkpoint = self._opened.newest_by_acks
        if checkpoint <= self._acked:
            return
        self._flush()
        if self._failure is None:
            membership.ack(checkpoint)
            self._acked = checkpoint

    def _flush(self) -> None:
        self._group.flush()
        self._failure = self._writing.settle() or self._failure

    def _learn_of_commits(self) -> None:
        unknown = self._reading.unknown()
        committed_offsets = self._group.committed(unknown) if unknown else {}
        notes = [parse_note(committed.metadata) for committed in committed_offsets.values()]
        for where, committed in committed_offsets.items():
            self._reading.begin_at(where, committed.offset)
        self._reach_if_opened(max((note.number for note in notes if note), default=0))
        self._reading.asked(unknown)

    def _is_read_due(self, every_ms: int) -> bool:
        is_behind = self._acked < self._opened.newest_by_acks
        return is_behind or self._clock.now_ms() - self._read_ms >= every_ms

    def _read_control(self) -> None:
        now_ms = self._clock.now_ms()
        control_read = self._new_in_control()
        for value in control_read.values:
            record = parse_record(value)
            if isinstance(record, OpenRecord):
                self._opened = self._opened.after(record, read_at_ms=now_ms)
        self._control_end, self._read_ms = control_read.end, now_ms
        self._control_last = control_read.values[-1] if control_read.values else None
        self._reach(self._opened.newest)

    def _new_in_control(self) -> ControlRead:
        """Read from the last read record on. If that record is gone, the topic may have been recreated with the same
        length, and is read completely."""
        if self._control_end == 0:
            return self._control.read_from(0)
        control_read = self._control.read_from(self._control_end - 1)
        return control_read if control_read.values[:1] == (self._control_last,) else self._control.read_from(0)

    def _reach_if_opened(self, number: int) -> None:
        """Reach `number` if opened. A number that is not yet known is looked up by reading the control topic once more;
        the new contents decide."""
        if number > self._opened.newest:
            self._read_control()
        if number <= self._opened.newest:
            self._reach(number)

    def _reach(self, number: int) -> None:
        """Reach a number. Remember it first: if the hook raises, the record with the number is not read again."""
        self._due = max(self._due, number)
        if self._due > self.number:
            self._hooks.on_checkpoint(self._due, self._reading.positions())
            self.number = self._due


def _caught(check: Callable[[], None]) -> ParticipantError | None:
    try:
        check()
    except ParticipantError as problem:
        return problem
    return None
