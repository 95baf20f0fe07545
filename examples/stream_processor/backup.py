"""What a leader does about backups, beside its processing: one thread per partition, one step after the other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import KafkaException

from examples.stream_processor.copies import BASE, LOG_FILE, CopyStore, Stored
from examples.stream_processor.log import read_log
from examples.stream_processor.place import Place
from examples.stream_processor.records import Record, read_record, record_bytes
from examples.stream_processor.replica import is_create
from examples.stream_processor.snapshots import Snapshot, SnapshotFolder, read_snapshot, snapshot_bytes
from offsite.model.errors import OffsiteError
from offsite_participant.bcs import Created, Upload
from offsite_participant.bcs_copies import (
    Beginning,
    Copy,
    CopyState,
    beginning,
    ending,
    never_begun,
    orphaned,
    superseded,
)

LOG = logging.getLogger(__name__)
DIED = "its leader died"


class Backup:
    """Of one `partition`, by the leader of one `term`. Its state changes are compare-and-set, and it looks again once
    its own copy is in progress, so that a leader which was deposed and does not know it turns no verdict."""

    def __init__(self, place: Place, partition: int, folder: SnapshotFolder, *, term: int) -> None:
        self._place, self._partition, self._folder, self._term = place, partition, folder, term
        self._store = CopyStore(place)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"backup-{partition}")

    def clean_up(self, newest: int, replayed: Iterable[Created]) -> None:
        """End what leaders before this one have left unfinished: they are not coming back to it."""
        met = tuple(replayed)
        self._thread.submit(self._logged, lambda: self._clean_up(newest, met))

    def upload(self, upload: Upload, base: Snapshot | None) -> None:
        """Begin to store a copy. `base` is pinned, and let go of at the end."""
        self._thread.submit(self._logged, lambda: self._upload(upload, base))

    def close(self) -> None:
        """Return at once: a copy that is under way goes on, and ends as its state in the store allows."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _logged(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception:
            LOG.exception("the backup of partition %d failed", self._partition)

    def _clean_up(self, newest: int, replayed: tuple[Created, ...]) -> None:
        copies, restored = self._without_orphans(newest), self._store.begun.checkpoint
        for each in never_begun(copies, partition=self._partition, replayed=replayed, restored=restored):
            own = self._store.begin(self._copy(Upload(checkpoint=each.checkpoint, position=each.position)))
            copies = self._without_orphans(newest)
            if own:
                self._end(own, copies)

    def _without_orphans(self, newest: int) -> list[Copy]:
        """All copies, as seen when there was no orphan left. It looks again behind each that it ends."""
        me = {"partition": self._partition, "term": self._term, "restored": self._store.begun.checkpoint}
        while True:
            stored = {each.copy: each for each in self._store.copies()}
            left = next(orphaned(stored, newest=newest, **me), None)
            if left is None:
                return list(stored)
            self._end(stored[left], list(stored))

    def _end(self, left: Stored, copies: Iterable[Copy]) -> None:
        copy = left.copy
        state = ending(copies, partition=copy.partition, checkpoint=copy.checkpoint, term=copy.term)
        self._store.change(left, state, DIED)

    def _upload(self, upload: Upload, base: Snapshot | None) -> None:
        try:
            if stored := self._begun(upload):
                self._store_copy(stored, base)
        finally:
            self._folder.unpin(base)

    def _begun(self, upload: Upload) -> Stored | None:
        """Its own copy, in progress, and seen by whoever else may be at one; None if it is not to make one."""
        me = {"partition": self._partition, "checkpoint": upload.checkpoint, "term": self._term}
        restored = self._store.begun.checkpoint
        own: Stored | None = None
        while True:
            stored = {each.copy: each for each in self._store.copies(upload.checkpoint)}
            if beginning(stored, **me, restored=restored) is not Beginning.COPY:
                break
            older = list(superseded(stored, **me))
            for each in older:
                self._store.change(stored[each], CopyState.ABANDONED)
            if own and not older:
                return own
            own = own or self._store.begin(self._copy(upload))
            if own is None:
                return None
        if own:
            self._store.change(own, CopyState.ABANDONED)
        return None

    def _store_copy(self, stored: Stored, base: Snapshot | None) -> None:
        try:
            self._store.write(stored.copy, self._files(base))
            check_files(stored.copy, self._store.read(stored.copy))
        except (OffsiteError, KafkaException, ValueError) as error:
            self._store.change(stored, CopyState.FAILED, str(error))
        else:
            self._store.change(stored, CopyState.COMPLETED)

    def _files(self, base: Snapshot | None) -> dict[str, bytes]:
        log = read_log(self._place, self._partition, offset=base.offset if base else 0)
        lines = b"".join(record_bytes(record) + b"\n" for record, _ in log)
        return {LOG_FILE: lines} | ({BASE: snapshot_bytes(base)} if base else {})

    def _copy(self, upload: Upload) -> Copy:
        return Copy(
            partition=self._partition,
            checkpoint=upload.checkpoint,
            term=self._term,
            state=CopyState.IN_PROGRESS,
            position=upload.position,
            partitions=self._store.begun.partitions,
        )


def check_files(copy: Copy, files: dict[str, bytes]) -> tuple[Snapshot | None, list[Record]]:
    """The base snapshot and the log behind it, up to the checkpoint and no further. Raises `ValueError` unless they
    fit: the base has seen nothing of what is cut off, the log has no hole, its last record is the checkpoint's."""
    base = read_snapshot(files[BASE]) if BASE in files else None
    first = base.processed + 1 if base else 0
    log = [read_record(line) for line in files[LOG_FILE].splitlines()]
    kept = [each for each in log if first <= each.position <= copy.position]
    if base and base.last >= copy.position:
        raise ValueError(f"the base snapshot has seen {base.last}, and the checkpoint is at {copy.position}")
    if [each.position for each in kept] != list(range(first, copy.position + 1)):
        raise ValueError(f"the log has not all records from {first} to {copy.position}")
    if not is_create(kept[-1], copy.checkpoint):
        raise ValueError(f"the record at {copy.position} is not that of checkpoint {copy.checkpoint}")
    return base, kept
