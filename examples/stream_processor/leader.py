"""The leader of one partition: everything here happens in the order that `offsite_participant.bcs` asks for.

    messages in -> commands, appended in one transaction -> processed -> events, appended in one transaction -> effects

A base snapshot is pinned while a `Create` is processed; its `Created` becomes durable with the other events; only then
its upload begins, and answers leave. Whatever fails ends this leader: nothing is skipped. The next one replays.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from examples.stream_processor.backup import Backup
from examples.stream_processor.engine import Here
from examples.stream_processor.log import LogWriter, cut_log
from examples.stream_processor.network import Network
from examples.stream_processor.place import Place
from examples.stream_processor.records import ELECTED, Message, Record
from examples.stream_processor.replica import Outcome, commands
from examples.stream_processor.snapshots import Snapshot, SnapshotFolder, snapshot_of
from examples.stream_processor.view import read_replica

REPEAT_S = 0.5
SNAPSHOT_EVERY = 200  # commands


class Leader:
    """Raises `Deposed`, `KafkaException`, `OSError` and `ValueError` from everything; then it is of no more use."""

    def __init__(self, place: Place, here: Here, network: Network) -> None:
        self._place, self._here, self._network = place, here, network
        self._writer = LogWriter(place, here.number)  # from here on no other leader can append
        self._folder = SnapshotFolder(path=place.snapshots(here.number))
        newest = self._folder.newest()
        self._replica = read_replica(place, here, newest)
        self._saved = newest.processed if newest else -1
        self._sent: dict[str, float] = {}
        self._term = self._replica.next_position
        self._append([Record(position=self._term, term=self._term, kind=ELECTED, body={"leader": here.number})])
        self._backup = Backup(place, here.number, self._folder, term=self._term)
        self._backup.clean_up(self._replica.state.checkpoint, self._replica.state.taken)
        self._process()

    def receive(self, messages: Sequence[Message]) -> None:
        replica = self._replica
        first = replica.next_position
        self._append(commands(replica.state.progress, messages, first=first, term=self._term))
        self._process()

    def tick(self) -> None:
        """Do what is due by time."""
        self._repeat()
        if self._replica.state.processed - self._saved >= SNAPSHOT_EVERY:
            self.save()

    def save(self) -> None:
        """Take a snapshot, and remove what is older: files, and the log up to the oldest file that is left."""
        if self._replica.state.processed == self._saved:
            return
        self._folder.save(snapshot_of(self._replica.state, self._replica.offset))
        self._saved = self._replica.state.processed
        if oldest := self._folder.remove_old():
            cut_log(self._place, self._here.number, before_offset=oldest.offset)

    def close(self) -> None:
        self._backup.close()

    def _append(self, records: Sequence[Record]) -> None:
        for record, offset in zip(records, self._writer.append(records), strict=True):
            self._replica.take(record, offset)

    def _process(self) -> None:
        outcomes: list[Outcome] = []
        bases: dict[int, Snapshot | None] = {}
        for outcome in self._replica.process(self._term):
            if outcome.step and outcome.step.pin_before is not None:
                bases[outcome.event.position] = self._folder.pin(before=outcome.step.pin_before)
            outcomes.append(outcome)
        if outcomes:
            self._writer.append([each.event for each in outcomes])
        for outcome in outcomes:
            self._carry_out(outcome, bases.get(outcome.event.position))

    def _carry_out(self, outcome: Outcome, base: Snapshot | None) -> None:
        """What may only happen once the event is durable. Who asked for a checkpoint sees its copy in the store."""
        if outcome.reply:
            self._network.send(outcome.reply, checkpoint=self._replica.state.checkpoint)
        if outcome.step and outcome.step.upload:
            self._backup.upload(outcome.step.upload, base)

    def _repeat(self) -> None:
        state, now_s = self._replica.state, time.monotonic()
        self._sent = {name: sent_s for name, sent_s in self._sent.items() if name in state.outstanding}
        for name, message in state.outstanding.items():
            if now_s - self._sent.get(name, -REPEAT_S) >= REPEAT_S:
                self._sent[name] = now_s
                self._network.send(message, checkpoint=state.checkpoint)
