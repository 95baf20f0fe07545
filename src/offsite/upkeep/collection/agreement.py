"""Decides whether a collector believes a commit that removes restore points or records. See decision 0043.

Anyone with the right to create objects can create a commit and remove everything by its word. So the commit's word is
not enough. Data is deleted because of the commit only if its audit lines exist and this installation has known the
commit for a while. In addition this installation made the commit itself by the policy in force here, or a plan of its
own removes the same data by the policy. A person may also accept commits up to a number.

A collector keeps the data removed by a disbelieved commit. A backup must not look empty because of such a commit
either, when compared with its replacement: before the whole backup is removed, its content before disbelieved commits
is consulted (`find_disputed`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from offsite.log.range import PartitionId, Span, uncovered
from offsite.model.cleanup_policy import Retention
from offsite.model.clock import Clock
from offsite.model.errors import Damaged, DamagedObject
from offsite.model.journal import warned
from offsite.model.units import format_duration
from offsite.repository.backup import Backup
from offsite.repository.catalogs.seal import SharedParts
from offsite.repository.commit import FOR_EVER, ExpiredRange, Pin, StoredCommit, damaged_commit
from offsite.repository.fold import fold
from offsite.repository.leftovers import LEFTOVER_AFTER_MS
from offsite.repository.local_memory import NO_RULE, LetGoMemory
from offsite.repository.replaced import CollectedHint, collected_hint, dropped_segments
from offsite.repository.snapshots.audit_record import AuditLine, read_audit
from offsite.repository.state import BackupState
from offsite.stores.wrapped_store import uses_own_clock
from offsite.upkeep.deletion import run_to_end
from offsite.upkeep.retention.apply import describe_points, describe_range
from offsite.upkeep.retention.kept_points import ChosenPoints, merge_chosen, pin_holds, points_between, unbroken_runs
from offsite.upkeep.retention.needs import Branches, needs_of_run, states_to_read
from offsite.upkeep.retention.plan import RetentionPlan, retention_plan_steps
from offsite.upkeep.retention.policy import RetentionPolicy, rule_of

WAITS = 3
"""A new commit of this kind is believed after this many grace times, counted from the moment when this installation
first saw the commit: three days by default, enough for a look at `offsite status`."""


def _nothing_told(_backup: Backup, _state: BackupState) -> Mapping[str, Retention]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionInForce:
    """The rules of this installation: its `policy` (None: keep everything), and the source's own retention of its
    topics. `accepted`: a person accepted the commits up to this number."""

    policy: RetentionPolicy | None = None
    cluster_retention: Callable[[Backup, BackupState], Mapping[str, Retention]] = _nothing_told
    accepted: int = 0


NOTHING_IN_FORCE = RetentionInForce()


@dataclass(frozen=True, slots=True, kw_only=True)
class DisbelievedCommit:
    """A commit without effect on collection: its author according to the audit lines (empty without lines), and the
    reason for disbelief. `waits`: only the waiting time has not passed.

    All other removed data stays, with the commit's number and the reason. The data of restore points dropped by a
    disbelieved commit also stays, against the word of any later commit. The same holds for a pinned point after a
    disbelieved removal of its pin.
    """

    commit: int
    who: str
    why: str
    waits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitJudgement:
    """`disbelieved`: the reason for disbelief; `needed`: data protected from deletion by any commit."""

    disbelieved: DisbelievedCommit | None = None
    needed: tuple[tuple[PartitionId, Span], ...] = ()


@dataclass(slots=True)
class CatalogCheck:
    """Compares each catalog on the walk with the commits. Anyone with the right to create objects can create a catalog
    without some points: retention would remove the points' data in good faith, without a trace in the commits."""

    backup: Backup
    _shared: SharedParts = field(default_factory=SharedParts)

    def check(self, state: BackupState, following: StoredCommit) -> None:
        """Return if the catalog of `state`, as named by the commit `following`, agrees with `state`; also without a
        readable catalog, because no reader continues from an unreadable one. Raises `DamagedObject`."""
        catalog, key = self.backup.catalog, self.backup.layout.seal_key(state.seq)
        try:
            catalogued = catalog.read_named(state.seq, following, shared=self._shared) if state.seq else None
            is_other = catalogued is not None and catalogued != state
        except Damaged:
            return
        if is_other:
            raise DamagedObject(
                f"{key} contradicts the commits: nothing is deleted",
                hint="lists may miss restore points because of this object. Switch retention off, delete the object, "
                f"then check: offsite verify --backup {self.backup.layout.backup}",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitJudge:
    """Judges the commits of `backup` by the rules `in_force`."""

    backup: Backup
    in_force: RetentionInForce
    clock: Clock
    grace_ms: int

    def read(self, seq: int) -> tuple[BackupState, StoredCommit]:
        """Commit `seq`, and the state before it. Raises `DamagedCommit` if either is missing."""
        layout = self.backup.layout
        base = self.backup.catalog.state(upto=seq - 1) if seq > 1 else BackupState(backup=layout.backup)
        stored = self.backup.log.get(seq)
        if stored is None or base.seq != seq - 1:
            raise damaged_commit(f"{layout.commit_key(min(seq, base.seq + 1))} is missing")
        return base, stored

    def judge(self, stored: StoredCommit, base: BackupState) -> Generator[None, None, CommitJudgement]:
        """Judge the commit after `base`. Raises `DamagedCommit`, `ClocksDiffer`, and errors of the store."""
        seq, memory = stored.commit.seq, LetGoMemory(backup=self.backup)
        if seq <= self.in_force.accepted or not (stored.commit.changes.drops_data or loosened_pins(stored, base)):
            return CommitJudgement()
        lines = tuple(_lines(self.backup, stored))
        rule = memory.rule_of(seq, stored.hash, points=len(fold(base, [stored]).history))
        why, waits = self._unknown(memory, stored)
        if not why:
            why = _without_line(stored, lines)
        if not why and (rule is None or not _is_by(rule, self.in_force.policy)):
            why = yield from self._disagreement(stored, base)
        if not why:
            return CommitJudgement()
        needed = () if rule is not None else tuple(_needed(self.backup, stored, base))
        who = next((line.who for line in lines), "")
        return CommitJudgement(disbelieved=DisbelievedCommit(commit=seq, who=who, why=why, waits=waits), needed=needed)

    def _unknown(self, memory: LetGoMemory, stored: StoredCommit) -> tuple[str, bool]:
        """Why this installation has not known the commit for long enough, and whether waiting helps."""
        now_ms, wait_ms = self.backup.store.now_ms(), WAITS * self.grace_ms
        if uses_own_clock(self.backup.store):
            return "without write permission, the clock of the store cannot be read: the commit's age is unknown", False
        seen_ms = memory.seen_ms(stored.commit.seq, stored.hash, now_ms=now_ms)
        if seen_ms is None:
            return "this machine cannot store when it first saw the commit: set XDG_STATE_HOME to a folder", False
        left_ms = wait_ms - max(0, now_ms - seen_ms)
        if left_ms <= 0:
            return "", False
        why = f"the commit is new to this machine; the check begins in {format_duration(left_ms / 1000)}"
        if now_ms - stored.commit.committed_at_ms > 2 * wait_ms:  # the machine keeps forgetting
            return f"{why}; if you see this after each start, set XDG_STATE_HOME to a persistent folder", False
        return why, True

    def _disagreement(self, stored: StoredCommit, base: BackupState) -> Generator[None, None, str]:
        """Why a plan of this installation does not remove the same data."""
        policy = self.in_force.policy
        if stored.commit.changes.compacted:
            return "another installation compacted it"
        if policy is None:
            return "this machine has no retention policy"
        told_settings = self.in_force.cluster_retention(self.backup, base) if policy.mirrors else {}
        now_ms = min(stored.commit.committed_at_ms, self.backup.store.now_ms())
        plan = yield from retention_plan_steps(
            self.backup, policy, clock=self.clock, cluster_retention=told_settings, now_ms=now_ms, head=base
        )
        return _differs(plan, stored, base)


def log_disbelieved(commits: Sequence[DisbelievedCommit]) -> None:
    """Log the disbelieved commits, except for waiting ones."""
    for disbelieved in commits:
        if not disbelieved.waits:
            cure = (
                f"if the commit is right: offsite collect run --accept-upto {disbelieved.commit}, or use the same "
                "--retain here"
            )
            warned("not_collected", commit=disbelieved.commit, who=disbelieved.who, why=disbelieved.why, next=cure)


def _is_by(rule: str, policy: RetentionPolicy | None) -> bool:
    return rule == NO_RULE or policy is None or rule == rule_of(policy)


def loosened_pins(stored: StoredCommit, base: BackupState) -> frozenset[int]:
    """The restore points whose pin the commit removes or shortens."""
    before, changes = {pin.seq: pin for pin in base.pins}, stored.commit.changes
    shorter = (
        pin.seq
        for pin in changes.pinned
        if pin.seq in before and pin.until_ms != FOR_EVER and pin_holds(before[pin.seq], now_ms=pin.until_ms)
    )
    return frozenset((*before.keys() & set(changes.unpinned), *shorter))


def _lines(backup: Backup, stored: StoredCommit) -> Iterator[AuditLine]:
    """The audit lines written for the commit. They are filed under the number of the commit before."""
    base = stored.commit.seq - 1
    for line in read_audit(backup.store, backup.layout, after=base - 1, upto=base):
        if isinstance(line, AuditLine) and line.writer == stored.commit.writer:
            yield line


def _without_line(stored: StoredCommit, lines: Sequence[AuditLine]) -> str:
    changes, noted = stored.commit.changes, {line.deletion.what for line in lines}
    names = [describe_points(start, end - 1) for start, end in changes.forgotten]
    names += [describe_range(expired) for expired in changes.expired]
    if missing := next((name for name in names if name not in noted), ""):
        return f"the audit has no line about {missing}"
    return "" if noted or not changes.removed else "the audit has no line about the commit"


def _differs(plan: RetentionPlan, stored: StoredCommit, base: BackupState) -> str:
    if why := plan.below_floor or plan.clock_step:
        return f"the retention policy of this machine refuses the deletion: {why}"
    for start, end in stored.commit.changes.forgotten:
        for low, high in uncovered(start, end, plan.forgotten):
            if points_between(base.history, low, high - 1):
                return f"the retention policy of this machine keeps restore points of {describe_points(low, high - 1)}"
    if early := loosened_pins(stored, base).difference(plan.unpinned):
        return f"another installation removed the pin of commit {min(early)}"
    for expired in stored.commit.changes.expired:
        if not _lets_go(plan, expired, base):
            return f"the retention policy of this machine keeps a part of {describe_range(expired)}"
    return ""


def _lets_go(plan: RetentionPlan, expired: ExpiredRange, base: BackupState) -> bool:
    of = (expired.partition_id, expired.branch)
    spans = [
        (planned_range.start, planned_range.end)
        for planned_range in plan.expired
        if (planned_range.partition_id, planned_range.branch) == of
    ]
    return all(
        any(low <= gone.segment.start and gone.segment.end <= high for low, high in spans)
        for gone in dropped_segments(base, expired)
    )


def _needed(backup: Backup, stored: StoredCommit, base: BackupState) -> Iterator[tuple[PartitionId, Span]]:
    """The needs of the restore points that the commit dropped or unpinned."""
    branches = Branches.of(base)
    taken_off = ((seq, seq + 1) for seq in sorted(loosened_pins(stored, base)))
    for start, end in (*stored.commit.changes.forgotten, *taken_off):
        dropped_points = merge_chosen(base.history, [ChosenPoints(start=start, end=end, rule="")])
        for run in unbroken_runs(base.history, dropped_points):
            states = {
                seq: base if seq == base.seq else backup.catalog.state(upto=seq)
                for seq in states_to_read(run, branches)
            }
            yield from ((history.partition_id, span) for history, span in needs_of_run(states, run, branches))


@dataclass(frozen=True, slots=True, kw_only=True)
class DisputedCommit:
    """The state `before` a disbelieved commit, the reason, and the `pins` that the commit removed or shortened."""

    before: BackupState
    disbelieved: DisbelievedCommit
    pins: tuple[Pin, ...]

    def __str__(self) -> str:
        return (
            f"commit {self.disbelieved.commit} deleted a part of the backup, and this machine does not accept the "
            f"deletion: {self.disbelieved.why}"
        )


def find_disputed(
    backup: Backup, *, in_force: RetentionInForce, clock: Clock, grace_ms: int = LEFTOVER_AFTER_MS
) -> Iterator[DisputedCommit]:
    """The commits of `backup` with removals of data or pins, not yet judged or not believed by a collection, and
    neither made nor believed by this machine. Raises `DamagedObject` if a catalog contradicts the commits,
    `DamagedCommit`, `ClocksDiffer`, and errors of the store."""
    head, hint, catalogs = backup.state(), collected_hint(backup), CatalogCheck(backup)
    hint = hint if hint.upto <= head.seq else CollectedHint()
    state = backup.catalog.state(upto=hint.upto) if hint.upto else BackupState(backup=head.backup)
    doubtful = list(hint.pending)
    for stored in backup.log.read(after=state.seq, upto=head.seq):
        catalogs.check(state, stored)
        if stored.commit.changes.needs_judgement:
            doubtful.append(stored.commit.seq)
        state = fold(state, [stored])
    judge = CommitJudge(backup=backup, in_force=in_force, clock=clock, grace_ms=grace_ms)
    for seq in doubtful:
        before, commit = judge.read(seq)
        points = len(fold(before, [commit]).history)
        if LetGoMemory(backup=backup).rule_of(seq, commit.hash, points=points) is not None:
            continue
        disbelieved = run_to_end(judge.judge(commit, before)).disbelieved
        if disbelieved is not None:
            pins = loosened_pins(commit, before)
            yield DisputedCommit(
                before=before, disbelieved=disbelieved, pins=tuple(pin for pin in before.pins if pin.seq in pins)
            )
