"""The plan of a retention: kept restore points with reasons, dropped points, and expiring data.

A generator makes the plan and pauses after each piece of work, because a continuous run plans between its rounds. A
plan is a value: shown in full before execution. Ages count back from the newest complete restore point, and nothing
expires while the source is silent for longer than the floor (see `kept_points`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from offsite.log.range import Span, uncovered
from offsite.model.cleanup_policy import Retention
from offsite.model.clock import Clock
from offsite.model.errors import OffsiteError
from offsite.model.journal import warned
from offsite.model.names import named
from offsite.model.units import format_duration, format_size
from offsite.points.point_cut import default_point
from offsite.repository.backup import Backup
from offsite.repository.commit import Commit, ExpiredRange, damaged_commit
from offsite.repository.leftovers import living_restores
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState
from offsite.stores.wrapped_store import uses_own_clock
from offsite.upkeep.deletion import check_clocks
from offsite.upkeep.retention.kept_points import (
    AGE,
    FIXED,
    IN_USE,
    RUNS_CHECKED,
    ChosenPoints,
    CommitKind,
    KeptPoints,
    choose_all,
    choose_always_kept,
    choose_by_rules,
    choose_pinned,
    dropped_spans,
    explain_clock_behind,
    explain_clock_jump,
    explain_silence,
    find_newest_complete,
    merge_chosen,
    newest_between,
    pin_holds,
    points_between,
    reckon,
    unbroken_runs,
)
from offsite.upkeep.retention.mirror import ExpiringRanges, find_needing_expired, is_retention_known
from offsite.upkeep.retention.needs import (
    Branches,
    MayGo,
    NeededBytes,
    Needs,
    PartitionHistory,
    UnneededSegments,
    add_needs,
    allow_any,
    first_that_fits,
    needs_of_run,
    states_to_read,
)
from offsite.upkeep.retention.policy import MIRROR, RetentionPolicy

_PARTITIONS_AT_ONCE = 100
"""Partitions examined between two pauses."""
_NAMED_MAX = 5
"""Topics named in one note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPlan:
    """The retention of a backup at `now_ms`, by the store's clock (epoch ms), in the state `head`. Ages count back from
    `from_ms` (0: no restore point is complete).

    `kept_points`: the kept restore points, rising, each with its rule. `forgotten`: the commit numbers `[start, end)`
    of `points` dropped points. `expired`: the ranges needed by no kept point, with `segments` segments; `removed_bytes`
    become free in the store once the objects are collected, `kept_bytes` stay. `unpinned`: ended pins. `next_commit`:
    the oldest point not kept by a fixed rule; `next_ms`: its earliest expiry (0: no time known, newer points decide).
    `below_floor`, `clock_step`: why the plan needs force. `notes`: remarks for the user. `needs` and `may_go` are the
    basis of the decision.
    """

    head: BackupState = field(repr=False)
    policy: RetentionPolicy
    now_ms: int
    from_ms: int = 0
    kept_points: tuple[KeptPoints, ...] = ()
    forgotten: tuple[Span, ...] = ()
    points: int = 0
    expired: tuple[ExpiredRange, ...] = ()
    segments: int = 0
    removed_bytes: int = 0
    kept_bytes: int = 0
    unpinned: tuple[int, ...] = ()
    next_commit: int = 0
    next_ms: int = 0
    below_floor: str = ""
    clock_step: str = ""
    notes: tuple[str, ...] = ()
    needs: Needs = field(default_factory=dict, repr=False, compare=False)
    may_go: MayGo = field(default=allow_any, repr=False, compare=False)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.forgotten or self.expired)


def retention_plan_steps(  # noqa: PLR0913  # all by keyword but what is planned for, and by what
    backup: Backup,
    policy: RetentionPolicy,
    *,
    clock: Clock,
    cluster_retention: Mapping[str, Retention] | None = None,
    now_ms: int | None = None,
    head: BackupState | None = None,
) -> Generator[None, None, RetentionPlan]:
    """The plan for the newest state, or for `head`, an earlier state.

    `now_ms`: as of the given moment, by the commits made before (None: the store's now). `cluster_retention`: the
    topics' retention according to the cluster itself, by name. Changes nothing. Raises `ClocksDiffer`, `DamagedCommit`,
    and `DamagedObject` if restores cannot be read.
    """
    store_ms = check_clocks(backup.store.now_ms(), clock, place=backup.store.url)
    head, as_of_ms = head or backup.state(), store_ms if now_ms is None else now_ms
    if not head.history:
        return RetentionPlan(head=head, policy=policy, now_ms=as_of_ms)
    completed_ms = head.completed_at_ms if now_ms is None else min(now_ms, head.completed_at_ms)
    planning = _Planning(backup, head, policy, as_of_ms, cluster_retention or {}, completed_at_ms=completed_ms)
    kept_points = yield from planning.kept_points()
    needs = yield from planning.needs(kept_points)
    return (yield from planning.plan(kept_points, needs))


def points_in_use(backup: Backup) -> tuple[int, ...]:
    """The commits, rising, read by unfinished restores: an interrupted restore must be able to continue. Raises
    `DamagedObject`."""
    return tuple(sorted({restore.commit for restore in living_restores(backup)}))


class _Planning:
    """One plan in the making."""

    def __init__(  # noqa: PLR0913  # all that a plan is made of
        self,
        backup: Backup,
        head: BackupState,
        policy: RetentionPolicy,
        now_ms: int,
        cluster_retention: Mapping[str, Retention],
        *,
        completed_at_ms: int,
    ) -> None:
        self._backup, self._head, self._policy, self._now_ms = backup, head, policy, now_ms
        self._cluster_retention = cluster_retention
        self._branches = Branches.of(head)
        self._kinds: dict[int, CommitKind] = {}
        self._expiring: ExpiringRanges | None = None
        complete = find_newest_complete(head.history, completed_at_ms=completed_at_ms, kind_of=self._kind_of)
        self._reckoning = reckon(self._state(complete.seq), complete, now_ms=now_ms) if complete else None
        self._nothing_goes = (
            explain_silence(self._reckoning, floor_ms=policy.floor_ms, now_ms=now_ms)
            if self._reckoning
            else "nothing is deleted: no restore point is complete yet"
        )

    @property
    def _from_ms(self) -> int:
        """The moment from which ages count back."""
        return self._reckoning.from_ms if self._reckoning else 0

    def kept_points(self) -> Generator[None, None, tuple[KeptPoints, ...]]:
        """The kept restore points."""
        head, history = self._head, self._head.history
        complete = self._reckoning.complete if self._reckoning else None
        default = _consistent(self._backup, head)
        always = choose_always_kept(history, now_ms=self._now_ms, complete=complete, default=default)
        in_use = (ChosenPoints(start=seq, end=seq + 1, rule=IN_USE) for seq in points_in_use(self._backup))
        fixed = [*choose_pinned(head.pins, now_ms=self._from_ms), *in_use, *always]
        if self._nothing_goes:
            return merge_chosen(history, [*fixed, *choose_all(history)])
        chosen = yield from (self._mirrored() if self._policy.mirrors else self._chosen())
        points = merge_chosen(history, [*fixed, *chosen])
        if self._policy.max_bytes is None:
            return points
        first = yield from first_that_fits(
            unbroken_runs(history, merge_chosen(history, fixed)),
            unbroken_runs(history, points),
            max_bytes=self._policy.max_bytes,
            needed=NeededBytes(head=head, branches=self._branches),
            read=self._needs_of,
        )
        fit = [replace(choice, start=max(choice.start, first)) for choice in chosen if choice.end > first]
        return merge_chosen(history, [*fixed, *fit])

    def needs(self, kept_points: Iterable[KeptPoints]) -> Generator[None, None, Needs]:
        """The needs of the kept points."""
        needs: Needs = {}
        for run in unbroken_runs(self._head.history, kept_points):
            add_needs(needs, (yield from self._needs_of(run)))
        return needs

    def plan(self, kept_points: tuple[KeptPoints, ...], needs: Needs) -> Generator[None, None, RetentionPlan]:
        """The plan, given the kept points and their needs."""
        head = self._head
        unneeded = UnneededSegments(head=head, needs=needs, may_go=self._may_go)
        expired: list[ExpiredRange] = []
        segments = removed_bytes = held_bytes = 0
        for number, partition_id in enumerate(unneeded.partitions()):
            expired_segments = unneeded.of(partition_id)
            expired += expired_segments.ranges
            segments, removed_bytes = segments + expired_segments.segments, removed_bytes + expired_segments.bytes
            held_bytes += expired_segments.held_bytes
            if number % _PARTITIONS_AT_ONCE == _PARTITIONS_AT_ONCE - 1:
                yield
        forgotten = tuple(dropped_spans(head.history, kept_points))
        oldest = next((points for points in kept_points if points.rule not in FIXED), None)
        next_ms = self._next_ms(oldest) if oldest else 0
        return RetentionPlan(
            head=head,
            policy=self._policy,
            now_ms=self._now_ms,
            from_ms=self._from_ms,
            kept_points=kept_points,
            forgotten=forgotten,
            points=sum(points_between(head.history, start, end - 1) for start, end in forgotten),
            expired=tuple(expired),
            segments=segments,
            removed_bytes=removed_bytes,
            kept_bytes=held_bytes - removed_bytes,
            unpinned=tuple(pin.seq for pin in head.pins if not pin_holds(pin, now_ms=self._from_ms)),
            next_commit=oldest.first if oldest and (next_ms or oldest.rule != MIRROR) else 0,
            next_ms=next_ms,
            below_floor=self._below_floor(forgotten),
            clock_step=self._clock_step(forgotten),
            notes=tuple(self._notes(held_bytes - removed_bytes)),
            needs=needs,
            may_go=self._may_go,
        )

    def _chosen(self) -> Generator[None, None, list[ChosenPoints]]:
        """The points chosen by a rule. Each bucket reads one commit or more."""
        choices: list[ChosenPoints] = []
        history, from_ms = self._head.history, self._from_ms
        for choice in choose_by_rules(history, self._policy, from_ms=from_ms, kind_of=self._kind_of):
            choices.append(choice)
            yield
        return choices

    def _mirrored(self) -> Generator[None, None, list[ChosenPoints]]:
        """All points without a need for data expired by the topics' own retention."""
        history = self._head.history
        self._expiring = ExpiringRanges(
            head=self._head, now_ms=self._from_ms, cluster_retention=self._cluster_retention
        )
        needing = yield from find_needing_expired(history, self._expiring, self._state)
        spans = uncovered(history[0].seq, history[-1].seq + 1, needing)
        return [ChosenPoints(start=start, end=end, rule=MIRROR) for start, end in spans]

    def _needs_of(self, run: Span) -> Generator[None, None, list[tuple[PartitionHistory, Span]]]:
        states: dict[int, BackupState] = {}
        for seq in states_to_read(run, self._branches):
            states[seq] = self._state(seq)
            yield
        return list(needs_of_run(states, run, self._branches))

    def _state(self, seq: int) -> BackupState:
        """The state after commit `seq`. Raises `DamagedCommit`."""
        if seq == self._head.seq:
            return self._head
        state = self._backup.catalog.state(upto=seq)
        if state.seq != seq:
            raise damaged_commit(f"{self._backup.layout.commit_key(state.seq + 1)} is missing")
        return state

    def _kind_of(self, seq: int) -> CommitKind:
        """The kind of the commit, as stated in the commit. Raises `DamagedCommit`."""
        if seq not in self._kinds:
            changes = self._commit(seq).changes
            whole = CommitKind.INCOMPLETE if changes.incomplete else CommitKind.COMPLETE
            self._kinds[seq] = CommitKind.UPKEEP if changes.is_upkeep else whole
        return self._kinds[seq]

    def _commit(self, seq: int) -> Commit:
        """Raises `DamagedCommit`."""
        stored = self._backup.log.get(seq)
        if stored is None:
            raise damaged_commit(f"{self._backup.layout.commit_key(seq)} is missing")
        return stored.commit

    def _may_go(self, history: PartitionHistory, segment: Segment) -> bool:
        """Whether an unneeded segment expires. In a mirroring backup only segments expired by the topics' retention;
        records deleted by a person stay until their expiry."""
        if self._nothing_goes:
            return False
        if self._expiring is None or self._policy.max_bytes is not None:
            return True
        return segment.end <= self._expiring.below(history)

    def _next_ms(self, oldest: KeptPoints) -> int:
        line = self._head.history.find(oldest.first)
        if oldest.rule == AGE and line is not None:
            return line.committed_at_ms + (self._policy.keep_age_ms or 0)
        return self._expiring.next_ms() if self._expiring is not None else 0

    def _below_floor(self, forgotten: Sequence[Span]) -> str:
        since_ms = self._from_ms - self._policy.floor_ms
        needed = self._head.history.latest_at(since_ms) if self._policy.floor_ms else None
        for start, end in forgotten if self._policy.floor_ms else ():
            last = newest_between(self._head.history, start, end)
            if (needed is not None and start <= needed.seq < end) or last.committed_at_ms > since_ms:
                return (
                    f"restore points up to commit {last.seq} would be deleted, and some of them are needed to restore "
                    f"every moment of the last {format_duration(self._policy.floor_ms / 1000)}"
                )
        return ""

    def _clock_step(self, forgotten: Sequence[Span]) -> str:
        """Why the times of dropped restore points may be wrong. Of each run only the newest point is judged, because
        earlier points are older."""
        if not forgotten or self._reckoning is None or self._is_by_size_alone:
            return ""
        history = self._head.history
        newest = [newest_between(history, start, end).seq for start, end in forgotten[-RUNS_CHECKED:]]
        late = (explain_clock_behind(history, seq, self._commit) for seq in newest)
        return explain_clock_jump(history, newest[-1], self._reckoning) or next(filter(None, late), "")

    @property
    def _is_by_size_alone(self) -> bool:
        return self._policy.mirrors and self._policy.max_bytes is not None

    def _notes(self, kept_bytes: int) -> Iterator[str]:
        policy = self._policy
        if uses_own_clock(self._backup.store):
            yield (
                "the plan uses the clock of this machine: without write permission, the clock of the store cannot be "
                "read"
            )
        if self._nothing_goes:
            yield self._nothing_goes
        if policy.max_bytes is not None and kept_bytes > policy.max_bytes:
            yield (
                f"{format_size(kept_bytes)} are kept, more than {format_size(policy.max_bytes)}: pins, running "
                "restores and the newest restore point need them"
            )
        if self._expiring is not None and (unknown := self._unknown()):
            yield (
                f"Retention of {named(unknown, most=_NAMED_MAX, of='topics')} is a broker default that this backup "
                "did not record, so nothing of them is deleted. Pass --bootstrap to read it from the cluster."
            )

    def _unknown(self) -> list[str]:
        shapes = self._head.latest_shapes().values()
        return sorted(shape.topic for shape in shapes if not is_retention_known(shape, self._cluster_retention))


def _consistent(backup: Backup, head: BackupState) -> int | None:
    """The default commit of a restore, if newer commits are skipped for a consistent cut; None if no commit is skipped,
    or if unknown."""
    try:
        default = default_point(backup.store, head)
    except OffsiteError as error:
        warned("default_point", error=error.id, why=error.message)
        return None
    return default.commit if default.newer is not None else None
