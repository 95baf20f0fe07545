"""Generations as backups: every generation a backup of its own, `<set>.gen-<n>`, made and followed as any other.

The commit log itself fences: a commit counts under a number that nobody else has, and after the entry of the switch a
seal takes the next number (`seal_backup`). A process about to commit has read the log before it asked the ledger for
permission (`FollowSettings.guard`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial

from offsite.follow.follower import Follower, FollowSettings, FollowTimes, Round
from offsite.generations.lost_keys import lost_of_backups
from offsite.generations.request import GenerationsRequest
from offsite.generations.target import GenerationEnds, Guard, RoundResult, Workshop, uncompacted
from offsite.model.errors import BackupNotFound, DamagedObject
from offsite.repository.backup import Backup, seal_backup
from offsite.repository.generation_sets.ledger import SetLayout
from offsite.repository.heads import RememberedHead
from offsite.repository.layout import BackupLayout, own_objects
from offsite.repository.leftovers import living_since_ms
from offsite.repository.removal import Announce, remove_backup, sweep, unopened_backup
from offsite.repository.state import BackupState
from offsite.upkeep.collection.agreement import NOTHING_IN_FORCE, DisputedCommit, find_disputed
from offsite.upkeep.retention.kept_points import pin_holds
from offsite.upkeep.retention.pins import pinned_points


class BackupTarget:
    """The port `GenerationTarget` over backups."""

    def __init__(self, request: GenerationsRequest, workshop: Workshop) -> None:
        self._request, self._workshop = request, workshop
        self._names = SetLayout(name=request.name)
        self._followed: tuple[int, Follower] | None = None
        self._guard: Guard = _refuse

    def uncompacted(self) -> Sequence[str]:
        selection = self._request.backup.selection
        return uncompacted(self._workshop.cluster.admin, selection) if selection is not None else ()

    def place_taken(self, generation: int) -> str:
        prefix = self._layout(generation).prefix
        return prefix if any(True for _ in own_objects(self._workshop.repository.store.list(prefix))) else ""

    def copy(self, generation: int, guard: Guard) -> RoundResult:
        """Do a round. Raises the errors of a round of a following backup, and of `guard`."""
        follower = self._follower(generation)
        self._guard = guard
        try:
            last_round = follower.work()
        except Exception:
            follower.forget()
            raise
        finally:
            self._guard = _refuse
        return RoundResult(
            at_end=_is_at_end(last_round),
            ends=ends_of(last_round.state),
            topics=frozenset((shape.topic, shape.topic_id) for shape in last_round.plan.source.shapes),
            commit=last_round.state.seq,
            partitions=max((shape.partitions for shape in last_round.plan.source.shapes), default=0),
        )

    def ends(self, generation: int) -> GenerationEnds:
        backup = self._open(generation)
        return {} if backup is None else ends_of(backup.state())

    def lost(self, old: int, new: int, topics: Collection[tuple[str, str]] | None = None) -> tuple[str, ...]:
        """Compare both backups. Raises the errors of reading both, and of Spark."""
        name, repository, older = self._names.backup_name, self._workshop.repository, self._open(old)
        before = older.state() if older is not None else None
        if older is None or before is None or not before.seq:  # the active generation had some
            return (f"data of {name(old)}: all its commits are missing, so a part of the backup may be missing",)
        after, runner = repository.backup(name(new)).state(), self._workshop.runner
        lost = partial(lost_of_backups, topics=topics, store=repository.store, runner=runner)
        if lost_keys := lost(before, after):
            return lost_keys
        for dispute in self._disputed(older):
            if lost_keys := lost(dispute.before, after):
                return (*lost_keys, str(dispute))
        return ()

    def _disputed(self, backup: Backup) -> Iterator[DisputedCommit]:
        return find_disputed(backup, in_force=NOTHING_IN_FORCE, clock=self._workshop.clock)

    def seal(self, generation: int) -> None:
        """Seal the backup. Raises `CommitLost` if other writers commit again and again."""
        seal_backup(self._workshop.repository.backup(self._names.backup_name(generation)))

    def is_read(self, generation: int) -> bool:
        return living_since_ms(unopened_backup(self._workshop.repository.store, self._layout(generation))) is not None

    def is_pinned(self, generation: int) -> bool:
        backup = self._open(generation)
        return backup is not None and any(pin.holds for pin in pinned_points(backup))

    def disputed_pin(self, generation: int) -> str:
        """Look for a disputed pin. Raises as `find_disputed`."""
        backup, now_ms = self._open(generation), self._workshop.repository.store.now_ms()
        disputes = self._disputed(backup) if backup is not None else ()
        for dispute in disputes:
            if any(pin_holds(pin, now_ms=now_ms) for pin in dispute.pins):
                return f"one of its restore points was pinned; {dispute}"
        return ""

    def is_there(self, generation: int) -> bool:
        return self._open(generation) is not None

    def remove(self, generation: int, announce: Announce) -> bool:
        store, layout = self._workshop.repository.store, self._layout(generation)
        if not remove_backup(store, layout, is_read=lambda: self.is_read(generation), announce=announce):
            return False
        RememberedHead(repository=self._workshop.repository, backup=layout.backup).forget()
        return True

    def sweep(self, generation: int, announce: Announce, *, removed_ms: int) -> None:
        sweep(self._workshop.repository.store, self._layout(generation), removed_ms=removed_ms, announce=announce)

    def _follower(self, generation: int) -> Follower:
        if self._followed is None or self._followed[0] != generation:
            self._followed = (generation, self._new_follower(generation))
        return self._followed[1]

    def _new_follower(self, generation: int) -> Follower:
        workshop = self._workshop
        follow = FollowSettings(
            repository=workshop.repository,
            cluster=workshop.cluster,
            runner=workshop.runner,
            request=replace(self._request.backup, backup=self._names.backup_name(generation)),
            times=FollowTimes(interval_s=self._request.interval_s, collect_after_s=workshop.collect_after_s),
            guard=self._ask_guard,
        )
        return Follower(follow, outages=workshop.outages, clock=workshop.clock, on_round=workshop.on_round)

    def _ask_guard(self) -> None:
        self._guard()

    def _layout(self, generation: int) -> BackupLayout:
        return self._names.backup(generation)

    def _open(self, generation: int) -> Backup | None:
        try:
            return self._workshop.repository.backup(self._names.backup_name(generation))
        except BackupNotFound:
            return None


def ends_of(state: BackupState) -> GenerationEnds:
    """How far every partition of a backup reaches."""
    return {partition_id: end for partition_id, end in state.accounted_ends().items() if end > 0}


def _refuse() -> None:
    raise DamagedObject("a generation is written outside of a round")


def _is_at_end(last_round: Round) -> bool:
    """Whether the round reached every end that a leader told in the round: nothing was left out, late, sick or
    failed."""
    plan, result, state = last_round.plan, last_round.result, last_round.state
    if plan.source.sick or plan.copy.sick or plan.source.missing or state.seq == 0 or state.incomplete:
        return False
    if state.left_behind or (result is not None and (result.failed or result.unread_topics)):
        return False
    reached = state.accounted_ends()
    return all(reached.get(partition.partition_id, 0) >= partition.end for partition in plan.source.bounds)
