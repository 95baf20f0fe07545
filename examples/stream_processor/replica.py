"""One partition as a state machine: the records of its log go in, in order, and the state and the next events come out.

Pure, and the same for a leader and for whoever only reads the log. Checkpoints are handled here and not in the engine,
so that the two know nothing of each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from examples.stream_processor import engine
from examples.stream_processor.engine import Here
from examples.stream_processor.records import (
    CHECKPOINT_CREATE,
    CHECKPOINT_CREATED,
    CHECKPOINT_IGNORED,
    COMMAND,
    ELECTED,
    Message,
    Record,
)
from examples.stream_processor.state import State
from offsite_participant.bcs import Create, Created, Progress, Step, on_create, on_message


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Of one command: the `event` to append, an acknowledgement to send once it is durable, and for a `Create` what
    the rules of checkpoints ask for."""

    event: Record
    reply: Message | None = None
    step: Step | None = None


class Replica:
    """`next_position` is that of the record to come; `offset`, the offset in Kafka from which a log has to be read to
    arrive at this state again."""

    def __init__(self, here: Here, state: State, *, offset: int = 0) -> None:
        self.here, self.state, self.offset = here, state, offset
        self.next_position = state.processed + 1
        self._pending: deque[tuple[Record, int]] = deque()

    @property
    def is_idle(self) -> bool:
        return not self._pending

    def take(self, record: Record, offset: int) -> None:
        """Take the next record of the log, or one from before that the state has already. Raises `ValueError` for a
        hole in the log, and for what cannot be: the partition has to stop then."""
        if record.position > self.next_position:
            raise ValueError(f"the log goes on with {record.position}, and not with {self.next_position}")
        if record.position < self.next_position:
            return
        self.next_position += 1
        if record.source != COMMAND:
            self._follow(record)
        elif record.kind != ELECTED:
            self._pending.append((record, offset))

    def process(self, term: int) -> Iterator[Outcome]:
        """Process all commands that wait, as the leader of `term`. Each event is in the state before the next command
        is looked at; whoever cannot make them durable throws this replica away."""
        while self._pending:
            yield self._process(self._pending[0][0], term)

    def _process(self, command: Record, term: int) -> Outcome:
        step = on_create(self.state.progress, _create(command), command.position) if _is_create(command) else None
        event = _checkpoint_event(step) if step else engine.process(self.state, self.here, command)
        record = Record(
            position=self.next_position, term=term, kind=event.kind, body=event.body, source=command.position
        )
        self.take(record, self._pending[0][1])
        return Outcome(event=record, reply=engine.reply(command), step=step)

    def _follow(self, event: Record) -> None:
        if event.source <= self.state.processed:
            return
        command, self.offset = self._pending.popleft()
        if command.position != event.source:
            raise ValueError(f"the event at {event.position} belongs to {event.source}, and not to {command.position}")
        if event.kind == CHECKPOINT_CREATED:
            self.state.take_over(Created(**event.body))
        else:
            engine.apply(self.state, self.here, event.kind, event.body)
        self.state.processed, self.state.last = event.source, event.position


def commands(progress: Progress, messages: Iterable[Message], *, first: int, term: int) -> list[Record]:
    """What the leader of `term` appends for `messages` that came in, from position `first` on: before each whose sender
    has a newer checkpoint, that checkpoint. All of it in one transaction: none of it without what is before it."""
    records: list[Record] = []
    for message in messages:
        for create in on_message(progress, message.checkpoint):
            progress = Progress(checkpoint=create.checkpoint, position=first + len(records))
            records.append(Record(position=progress.position, term=term, kind=CHECKPOINT_CREATE, body=asdict(create)))
        body = {**message.body, "sender": message.sender, "name": message.name} if message.sender else message.body
        records.append(Record(position=first + len(records), term=term, kind=message.kind, body=body))
    return records


def is_create(record: Record, checkpoint: int) -> bool:
    return _is_create(record) and _create(record).checkpoint == checkpoint


def _is_create(record: Record) -> bool:
    return record.kind == CHECKPOINT_CREATE and record.source == COMMAND


def _create(command: Record) -> Create:
    return Create(**command.body)


def _checkpoint_event(step: Step) -> engine.Event:
    kind = CHECKPOINT_CREATED if isinstance(step.appended, Created) else CHECKPOINT_IGNORED
    return engine.Event(kind=kind, body=asdict(step.appended))
