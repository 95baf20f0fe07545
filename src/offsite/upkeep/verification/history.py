"""Checks the history of a backup. Folds the history from the first commit, ignoring catalogs, and compares the catalogs
with the result.

A damaged commit costs the restore points from the commit to the next catalog confirmed by later commits: from there on
the history is readable again. Reads only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from offsite.model.errors import Damaged, DamagedCommit, FormatTooNew
from offsite.repository.backup import Backup
from offsite.repository.catalogs.seal import SharedParts
from offsite.repository.commit import Commit, SnapshotRef, StoredCommit, damaged_commit
from offsite.repository.commit_log import UnreadableCommit
from offsite.repository.coverage import CoverageWalk
from offsite.repository.fold import StateBuilder, fold
from offsite.repository.state import FIRST_SEQ, BackupState

_LOST_CATALOG = "nothing is lost: the commits have the same contents. Delete the object; it is not needed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitDamage:
    """Commit `first_commit` is damaged, and the restore points up to `last_commit` cannot be used. `is_newer`: the
    commit has a newer format than this offsite reads, and may be sound."""

    first_commit: int
    last_commit: int
    problem: str
    is_newer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectDamage:
    """An object besides the data that differs from the stored one, with the consequence."""

    key: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UncoveredOffsets:
    """Offsets `[start, end)` that `commit` and all later restore points claim to cover, without any data or
    evidence."""

    topic: str
    partition: int
    start: int
    end: int
    commit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedHistory:
    """Result of the check of a history. `head` is the newest usable state. `passed_over`: uncovered offsets of commits,
    and whether the commits promised to account for all offsets. `groups`, `settings` and `registries` are the snapshots
    named by commits, with the first commit that names them."""

    head: BackupState
    groups: Mapping[str, int]
    settings: Mapping[SnapshotRef, int]
    registries: Mapping[SnapshotRef, int]
    commits: tuple[CommitDamage, ...]
    catalogs: tuple[ObjectDamage, ...]
    passed_over: tuple[tuple[UncoveredOffsets, bool], ...]


def check_history(backup: Backup) -> CheckedHistory:
    """The check of all commits and catalogs of `backup`."""
    walk = _Walk(backup=backup)
    for seq, outcome in backup.log.try_read(after=FIRST_SEQ - 1):
        walk.take(seq, outcome)
    return walk.checked()


@dataclass(slots=True, kw_only=True)
class _Walk:
    """The state of the check. `folding` began with `base`; None behind a damaged commit, until a catalog continues the
    history. `before` is the last commit read; `disowned` a commit with another hash than named by its successor, if the
    commit has a valid digest."""

    backup: Backup
    base: BackupState = field(init=False)
    folding: StateBuilder | None = field(init=False)
    sound: BackupState = field(init=False)
    before: StoredCommit | None = None
    disowned: int = 0
    coverage: CoverageWalk = field(default_factory=CoverageWalk)
    passed_over: list[tuple[UncoveredOffsets, bool]] = field(default_factory=list)
    commits: list[CommitDamage] = field(default_factory=list)
    catalogs: list[ObjectDamage] = field(default_factory=list)
    sealed: frozenset[int] = field(init=False)
    parts: SharedParts = field(default_factory=SharedParts)
    groups: dict[str, int] = field(default_factory=dict)
    settings: dict[SnapshotRef, int] = field(default_factory=dict)
    registries: dict[SnapshotRef, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sound = BackupState(backup=self.backup.layout.backup)
        self.base, self.folding = self.sound, StateBuilder(self.sound)
        self.sealed = frozenset(self.backup.catalog.sealed())

    def take(self, seq: int, outcome: StoredCommit | UnreadableCommit) -> None:
        """Check commit `seq`, or record the reason why it cannot be read."""
        stored = outcome if isinstance(outcome, StoredCommit) else None
        if isinstance(outcome, StoredCommit):
            self._note_snapshots(outcome.commit)
            self._look_at_catalog(seq - 1, outcome)
            outcome = self._applied(outcome)
        self.before = stored
        if isinstance(outcome, UnreadableCommit):
            self._lose(seq, outcome)
        elif self.folding is None:
            self._lose_upto(seq)

    def checked(self) -> CheckedHistory:
        if self.folding is not None:
            self.sound = self.folding.state()
            self._look_behind(self.sound)
        return CheckedHistory(
            head=self.sound,
            groups=self.groups,
            settings=self.settings,
            registries=self.registries,
            commits=tuple(self.commits),
            catalogs=(*self.catalogs, *self._hint()),
            passed_over=tuple(self.passed_over),
        )

    def _look_behind(self, head: BackupState) -> None:
        """A sealed catalog of a later commit shows that the log was longer. Not checked behind reported damage: there
        the end of the usable history is not the end of the log."""
        if lost := self.backup.lost_commit(head):
            seal = self.backup.layout.seal_key(lost)
            problem = f"commits {head.seq + 1} to {lost} are missing, but their catalog exists: {seal}"
            self.commits.append(CommitDamage(first_commit=head.seq + 1, last_commit=lost, problem=problem))

    def _note_snapshots(self, commit: Commit) -> None:
        if commit.changes.groups is not None:
            self.groups.setdefault(commit.changes.groups, commit.seq)
        if commit.changes.metadata is not None:
            self.settings.setdefault(commit.changes.metadata, commit.seq)
        if commit.changes.registry is not None:
            self.registries.setdefault(commit.changes.registry, commit.seq)

    def _applied(self, stored: StoredCommit) -> StoredCommit | DamagedCommit:
        if self.folding is not None and stored.commit.previous != self.folding.head_hash:
            self._doubt(stored.commit.seq - 1)
        if self.folding is None:
            return stored
        try:
            self.folding.apply(stored)
        except DamagedCommit as error:
            return error
        self._note_passed_over(stored.commit)
        return stored

    def _note_passed_over(self, commit: Commit) -> None:
        for uncovered in self.coverage.take(commit.changes):
            where = uncovered.partition_id
            passed = UncoveredOffsets(
                topic=where.topic,
                partition=where.partition,
                start=uncovered.start,
                end=uncovered.end,
                commit=commit.seq,
            )
            self.passed_over.append((passed, self.coverage.is_accounted))

    def _lose(self, seq: int, error: UnreadableCommit) -> None:
        if self.folding is not None:
            self.sound = self._before(seq)
            self.folding = None
        is_newer = isinstance(error, FormatTooNew)
        damage = CommitDamage(first_commit=seq, last_commit=seq, problem=error.message, is_newer=is_newer)
        self.commits.append(damage)

    def _doubt(self, seq: int) -> None:
        """The next commit names another hash than that of commit `seq`. A commit with a valid digest is lost only if
        the history is found to continue from the next one."""
        if self.before is not None and self.before.has_digest:
            self.disowned = seq
        elif seq >= FIRST_SEQ:
            self._lose(seq, damaged_commit(f"commit {seq + 1} does not name the hash of commit {seq}"))

    def _lose_upto(self, seq: int) -> None:
        last = self.commits[-1]
        self.commits[-1] = replace(last, last_commit=max(seq, last.first_commit))

    def _before(self, seq: int) -> BackupState:
        """A folding that met a damaged commit may have applied a part of it: fold the earlier commits once more."""
        return fold(self.base, self.backup.log.read(after=self.base.seq, upto=seq - 1))

    def _look_at_catalog(self, seq: int, following: StoredCommit) -> None:
        """Compare the catalog of commit `seq` with the commits up to `seq`; or continue from the catalog."""
        if seq not in self.sealed:
            return
        try:
            state = self._read_whole(seq, following)
        except Damaged as error:
            self.catalogs.append(
                ObjectDamage(key=self.backup.layout.seal_key(seq), problem=_with_catalog_note(error.message))
            )
            return
        if state is None:
            return
        if self.folding is None:
            self._lose_upto(seq - 1)  # the catalog is a restore point, too
            if self.disowned:
                self.commits[-1] = replace(self.commits[-1], first_commit=self.disowned)
                self.disowned = 0
            self.base, self.folding = state, StateBuilder(state)
            self.coverage.resume_from(state)
        elif (folded := self.folding.state()) != state and _as_known_to(state, folded) != state:
            problem = "it contradicts the commits"
            self.catalogs.append(
                ObjectDamage(key=self.backup.layout.catalog_key(seq), problem=_with_catalog_note(problem))
            )

    def _read_whole(self, seq: int, following: StoredCommit) -> BackupState | None:
        """The catalog with all its parts. Other readers load parts on demand."""
        state = self.backup.catalog.read_named(seq, following, shared=self.parts)
        if state is not None:
            deque(state.stored_segments(), maxlen=0)
            deque((chunk.columns for chunk in state.history.chunks), maxlen=0)
        return state

    def _hint(self) -> Iterator[ObjectDamage]:
        """The hint must name an existing catalog; a wrong hint only makes its reader use another catalog."""
        try:
            hinted = self.backup.catalog.hinted()
        except Damaged as error:
            yield ObjectDamage(key=self.backup.layout.hint_key, problem=_with_catalog_note(error.message))
            return
        if hinted is not None and hinted not in self.sealed and not self._is_sealed_now(hinted):
            problem = f"it names a catalog {hinted}, which is missing"
            yield ObjectDamage(key=self.backup.layout.hint_key, problem=_with_catalog_note(problem))

    def _is_sealed_now(self, seq: int) -> bool:
        """Whether a catalog exists now that did not exist at the start of the check: backups continue meanwhile."""
        return self.backup.store.head(self.backup.layout.seal_key(seq)) is not None


def _as_known_to(stored: BackupState, folded: BackupState) -> BackupState:
    """`folded`, without the readings and late reads that the catalog `stored` lacks: versions that know none of them
    continue a backup, and their catalogs are no damage."""
    topics = {
        incarnation: replace(
            shape,
            late=shape.late if (stored_shape := stored.topics.get(incarnation, shape)).late is not None else None,
            read_ms=shape.read_ms if stored_shape.read_ms else 0,
        )
        for incarnation, shape in folded.topics.items()
    }
    return replace(folded, topics=topics, read_ms=folded.read_ms if stored.read_ms else 0)


def _with_catalog_note(problem: str) -> str:
    return f"{problem}; {_LOST_CATALOG}"
