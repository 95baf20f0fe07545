"""What a backup must say after each run, reckoned from the truth alone: what is held, what is lost and why.

The judge keeps, for every partition of every topic incarnation, the value that the backup claims at each offset and
whether it must hold it. It knows nothing of segments, epochs or branches: where two histories part it sees by values,
of which no two are the same. After every run it compares the newest state, at the end every restore point.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from offsite.backup.copy_pass import PartitionFailure
from offsite.backup.run import BackupResult
from offsite.log.range import PartitionId, TopicPartition
from offsite.model.errors import KafkaNotAuthorized, LeaderUnavailable
from offsite.points.point_in_time import PartitionChain
from offsite.points.source_view import stored_log
from offsite.repository.backup import Backup
from offsite.repository.state import BackupState
from tests.worlds.source_events.source import SimSource

SILENT = 2
"""Partitions that did not answer, from which on a round may leave others to the next one."""
NOT_TRIED = "was not tried"


@dataclass
class Known:
    """What the backup claims of one partition: `values[o]` for each offset below its position; `lost` offsets were gone
    before they were read, `before` ones were gone before the backup began, which is no loss."""

    values: list[int | None] = field(default_factory=list)
    before: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)
    begun: bool = False
    settled: int = 0
    """Below, the source had nothing any more when it went on: whether it was the same log, nobody can tell."""
    doubtful: bool = False
    """Read from another log than the one that was planned, of a leader that never knew the planned epoch: what is known
    of the epochs is not what was read. The next run may find that out by the records alone, and then it stays sick."""
    let_go: int = 0
    """Below, the source had let go, so that retention may have: a replica that still has it may be elected later."""

    @property
    def position(self) -> int:
        return len(self.values)

    def copied(self) -> Known:
        return replace(self, values=list(self.values), before=set(self.before), lost=set(self.lost))

    def was_never_read(self, start: int) -> bool:
        """Whether all from `start` on was gone before it was read."""
        return all(o in self.lost or value is None for o, value in enumerate(self.values) if o >= start)

    def held(self) -> dict[int, int]:
        return {
            o: value for o, value in enumerate(self.values) if value is not None and o not in self.lost | self.before
        }


@dataclass(frozen=True)
class Seen:
    """One partition at the moment of a plan: what the log is, from where, and to where."""

    partition: PartitionId
    truth: tuple[int | None, ...]
    start: int
    end: int
    shut: bool


@dataclass(frozen=True)
class Planned:
    """The source as a plan saw it."""

    partitions: dict[TopicPartition, Seen]
    ids: dict[str, str]
    hidden: frozenset[str]

    @classmethod
    def of(cls, source: SimSource) -> Planned:
        return cls(
            partitions={
                TopicPartition(topic=name, partition=n): Seen(
                    partition=PartitionId(topic=name, topic_id=str(topic.topic_id), partition=n),
                    truth=tuple(each.truth),
                    start=each.log.start,
                    end=each.log.end,
                    shut=name in source.shut,
                )
                for name, topic in source.seen().items()
                for n, each in enumerate(topic.logs)
            },
            ids={name: str(topic.topic_id) for name, topic in source.seen().items()},
            hidden=frozenset(source.hidden),
        )


class Judge:
    def __init__(self) -> None:
        self.known: dict[PartitionId, Known] = {}
        self.deleted: dict[tuple[str, str], bool] = {}
        self.points: dict[int, dict[PartitionId, Known]] = {}
        self.cuts = 0
        self._reads: dict[tuple[object, ...], dict[int, int]] = {}

    def may_fail_whole(self, planned: Planned, source: SimSource) -> bool:
        """Whether a run may end in an error: only when no partition can be read at all, or those that did not answer
        were enough to leave the others."""
        news = {key: seen for key, seen in planned.partitions.items() if not self._fails(seen)}
        is_enough = len(self._silent(planned, source)) >= SILENT
        return is_enough or all(self._is_disturbed(key, seen, source) for key, seen in news.items())

    def _silent(self, planned: Planned, source: SimSource) -> set[TopicPartition]:
        """The partitions that have news, and did not answer."""
        return {
            key
            for key, seen in planned.partitions.items()
            if key in source.failing and seen.end != self.known.get(seen.partition, Known()).position
        }

    def _not_tried(
        self, planned: Planned, source: SimSource, failed: dict[TopicPartition, PartitionFailure]
    ) -> set[TopicPartition]:
        """The partitions that were left to the next round, for the reason that others did not answer: which must be
        so."""
        left = {key for key, each in failed.items() if NOT_TRIED in each.message}
        silent = {key for key, each in failed.items() if each.error == LeaderUnavailable.id} - left
        silent |= self._silent(planned, source)
        for key in left:
            assert len(silent - {key}) >= SILENT, (
                f"{key}: said to be not tried, and only {sorted(silent)} did not answer"
            )
        return left

    def after(self, planned: Planned, source: SimSource, result: BackupResult, state: BackupState) -> None:
        """Take the result of a run, and compare all that it says of the source."""
        cuts = {
            TopicPartition(topic=each.topic, partition=each.partition): (each.at, each.end) for each in result.cut_back
        }
        cuts |= self._let_go_whole(state)
        failed = {TopicPartition(topic=each.topic, partition=each.partition): each for each in result.failed}
        left = self._not_tried(planned, source, failed)
        for key, seen in planned.partitions.items():
            self._take(key, seen, source, state, cuts.pop(key, None), key in failed, key in left)
        assert not cuts, f"cut back, and not there: {cuts}"
        self._check_failed(planned, failed)
        self._take_deleted(planned)
        told = {(each.topic, each.topic_id): shape.is_deleted for each, shape in state.topics.items()}
        assert told == {each: self.deleted[each] for each in told}, "what is deleted"
        self.points[state.seq] = {partition: each.copied() for partition, each in self.known.items()}
        self.compare(state, self.known)

    def _let_go_whole(self, state: BackupState) -> dict[TopicPartition, tuple[int, int]]:
        """The histories that ended now, and of which retention had let go of all before: nobody has to tell a person of
        them."""
        ended = {
            branch.partition_id: (branch.at, branch.end)
            for branch in state.branches
            if branch.commit == state.seq and branch.expired and not branch.segments
        }
        kept = {partition for partition in ended if self.known[partition].let_go < ended[partition][1]}
        assert not kept, f"the source still had some of {kept}, so that retention may not let go of it"
        return {partition.topic_partition: cut for partition, cut in ended.items()}

    def _take(  # noqa: PLR0917 - all that is known of a partition
        self,
        key: TopicPartition,
        seen: Seen,
        source: SimSource,
        state: BackupState,
        cut: tuple[int, int] | None,
        failed: bool,
        left: bool,
    ) -> None:
        known = self.known.setdefault(seen.partition, Known())
        before, parted = known.position, self._parted(known, seen)
        reached = state.positions[seen.partition].end if seen.partition in state.positions else 0
        if parted is None and seen.start < before and self._parted(known, seen, settled=0) is not None:
            pass  # nobody has to tell, and the epochs of what is held may
        elif parted is not None and cut is None and seen.end >= before and known.was_never_read(parted):
            known.settled = before  # of what differs not one record was read, so no epoch of it is known
        elif parted is None or seen.start >= before or self._fails(seen):
            assert cut is None, f"{key}: said to be cut back to {cut}, and it was not, or nobody can tell"
        else:
            assert cut is not None or failed, f"{key}: it was cut back to {parted}, and nothing says so"
        if cut is not None:
            at, end = cut
            parted = self._parted(known, seen, settled=known.settled if at >= known.settled else 0)
            assert parted is not None
            assert end == before, f"{key}: the old history ended at {before}, not at {end}"
            ours = [o for o in range(max(at, known.let_go), parted) if o not in known.before | known.lost]
            gap = {known.values[o] for o in ours} | {seen.truth[o] for o in ours}
            assert at <= parted, f"{key}: the histories part at {parted}, not at {at}"
            assert gap <= {None}, f"{key}: the histories part at {parted}, not at {at}"
            known.values = known.values[:at]
            known.settled, known.let_go, known.doubtful = min(known.settled, at), min(known.let_go, at), False
            known.lost, known.before = {o for o in known.lost if o < at}, {o for o in known.before if o < at}
            self.cuts += 1
        if self._fails(seen):
            assert (failed, reached) == (True, before), f"{key}: it cannot be gone on with, and was"
            return
        assert known.position <= reached, f"{key}: it stands at {reached}"
        assert failed or reached >= seen.end, f"{key}: it stands at {reached} of {seen.end}, and nothing says why"
        assert reached <= max(seen.end, known.position) or self._is_disturbed(key, seen, source), f"{key}: at {reached}"
        assert not failed or left or self._is_disturbed(key, seen, source), f"{key}: failed for no reason"
        if reached > known.position:
            self._extend(known, key, seen, source, reached)
        if seen.start >= before and (parted is not None or known.doubtful):
            known.settled = before  # the plan had nothing to compare, be it that the log differed, or the one read then
        known.begun = True

    def _extend(self, known: Known, key: TopicPartition, seen: Seen, source: SimSource, reached: int) -> None:
        if not known.begun:
            known.values = list(seen.truth[: seen.start])
            known.before = set(range(seen.start))
        now = source.topics[key.topic].logs[key.partition] if key.topic in source.topics else None
        is_there = now is not None and self._is_same(seen, source)
        start = max(seen.start, now.log.start if now is not None and is_there else 0)
        truth = list(now.truth if now is not None and is_there and len(now.truth) >= reached else seen.truth)
        known.doubtful = known.doubtful or truth[: seen.end] != list(seen.truth[: seen.end])
        for offset in range(known.position, reached):
            known.values.append(truth[offset])
            if offset < start:
                known.lost.add(offset)

    @staticmethod
    def _is_same(seen: Seen, source: SimSource) -> bool:
        topic = source.topics.get(seen.partition.topic)
        return topic is not None and str(topic.topic_id) == seen.partition.topic_id

    @staticmethod
    def _parted(known: Known, seen: Seen, *, settled: int | None = None) -> int | None:
        """The first offset at which the log is not what is known of it, where that can be told from offset `settled`
        on."""
        settled = known.settled if settled is None else settled
        for offset, value in enumerate(known.values):
            if offset >= len(seen.truth) or (offset >= settled and seen.truth[offset] != value):
                return offset
        return None

    def _fails(self, seen: Seen) -> bool:
        """Whether nothing can be said but that it is not known how to go on."""
        known = self.known.get(seen.partition, Known())
        parted = self._parted(known, seen)
        return seen.shut or (parted is not None and seen.start < known.position and 0 < seen.start >= parted)

    def _is_disturbed(self, key: TopicPartition, seen: Seen, source: SimSource) -> bool:
        """Whether something happened between the plan and the end of the copy, or a worker failed."""
        if key in source.failing or key.topic in source.shut or not self._is_same(seen, source):
            return True
        known = self.known.get(seen.partition, Known())
        if known.doubtful or self._border_is_settled(known, seen) or self._has_no_witness(known, seen):
            return True
        now = source.topics[key.topic].logs[key.partition]
        return key.topic in source.hidden or tuple(now.truth[: seen.end]) != seen.truth[: seen.end]

    def _has_no_witness(self, known: Known, seen: Seen) -> bool:
        """Whether the source has no record any more, of before the histories part, that is held as well: then none can
        tell that they are the same before."""
        parted = self._parted(known, seen, settled=0)
        return parted is not None and seen.start > 0 and not any(seen.start <= o < parted for o in known.held())

    def _border_is_settled(self, known: Known, seen: Seen) -> bool:
        """Whether the last record that is held before the histories part lies where nobody could tell, and differs."""
        parted = self._parted(known, seen)
        last = max((o for o in known.held() if parted is not None and o < parted), default=-1)
        return 0 <= last < known.settled and seen.truth[last] != known.values[last]

    def _check_failed(self, planned: Planned, failed: dict[TopicPartition, object]) -> None:
        hidden = {each.topic_partition for each in self.known if each.topic in planned.hidden and not self._gone(each)}
        assert hidden <= set(failed), f"hidden from us, and nothing says so: {hidden - set(failed)}"
        assert set(failed) <= set(planned.partitions) | hidden, "failed, and neither there nor hidden"
        for key in hidden:
            assert getattr(failed[key], "error", "") == KafkaNotAuthorized.id

    def _gone(self, known: PartitionId) -> bool:
        """Whether it is known to be deleted, or is not the newest topic of its name."""
        newest = [each for each in self.deleted if each[0] == known.topic][-1]
        return self.deleted[newest] or newest != (known.topic, known.topic_id)

    def _take_deleted(self, planned: Planned) -> None:
        for name, topic_id in planned.ids.items():
            self.deleted.setdefault((name, topic_id), False)
        for name, topic_id in self.deleted:
            if name in planned.ids:
                self.deleted[name, topic_id] = planned.ids[name] != topic_id
            elif name not in planned.hidden:
                self.deleted[name, topic_id] = True

    def _read(self, backup: Backup, state: BackupState, partition: PartitionId) -> dict[int, int]:
        """What is stored: read once for all restore points that have the same segments."""
        position, segments = state.positions.get(partition), state.segments.get(partition, ())
        same = (partition, position.end if position else 0, *((each.key, each.start, each.end) for each in segments))
        if same not in self._reads:
            self._reads[same] = dict(_stored(backup, state, partition))
        return self._reads[same]

    def compare(self, state: BackupState, known: dict[PartitionId, Known], backup: Backup | None = None) -> None:
        """Compare what `state` names with what must be held and lost."""
        for partition, expected in known.items():
            position = state.positions.get(partition)
            assert (position.end if position else 0) == expected.position, f"position of {partition}"
            lost = {o for hole in state.holes if hole.partition_id == partition for o in range(hole.start, hole.end)}
            missing = {o for o in expected.lost if expected.values[o] is not None} - lost
            assert not missing, f"commit {state.seq}: {partition} lacks {sorted(missing)}, and names no hole"
            false = {o for o in expected.held() if o in lost}
            assert not false, f"commit {state.seq}: {partition} calls {sorted(false)} lost"
            if backup is not None:
                found = self._read(backup, state, partition)
                assert found == expected.held(), f"commit {state.seq}: {partition} holds {found}"

    def compare_all(self, backup: Backup) -> None:
        """Compare every restore point, to the record."""
        head = backup.state()
        for seq, known in self.points.items():
            self.compare(backup.state_at(seq, head=head), known, backup)


def _stored(backup: Backup, state: BackupState, partition: PartitionId) -> Iterator[tuple[int, int]]:
    segments = tuple(state.segments.get(partition, ()))
    if segments:
        chain = PartitionChain(source=partition, segments=segments, end=state.positions[partition].end)
        for batch in stored_log(chain, backup.store):
            for record in batch.records():
                yield record.offset, int(record.value or b"-1")
