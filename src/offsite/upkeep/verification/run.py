"""Checks that the objects listed by commits exist and are unchanged. Reads only.

Quick: every listed object exists with its recorded size, and the history is whole, from the first commit on. Deep:
every byte is read again (in Spark) and compared with hash, CRC32C and counts; and the objects besides the data must
exist and be unchanged: records (of restores, drills, checks and changes to groups) and snapshots (of groups, cluster
settings and schema registries).

No record is needed to restore. An unfinished restore needs its record to continue, a changed group needs it for an
undo. Objects of earlier versions have no digest: the check reports that nothing vouches for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from itertools import chain, islice

from offsite.engine.runner import OnProgress, Runner, job_named
from offsite.log.offset_map import OffsetMap
from offsite.model.errors import Damaged, DamagedObject, OffsiteError
from offsite.model.journal import warned
from offsite.model.names import amount
from offsite.model.untrusted.bounded_json import BadJson, DigestState, check_digest, decode_json
from offsite.repository.backup import Backup
from offsite.repository.coverage import find_origins
from offsite.repository.json_form import parse_json_object
from offsite.repository.layout import PROBE_KEY, ROOT_KEY, own_objects
from offsite.repository.lease import BEATS
from offsite.repository.repository import strangers_around, strangers_in
from offsite.repository.segments.body import content_hash
from offsite.repository.segments.segment import Segment
from offsite.repository.snapshots.group_snapshot import get_group_snapshot
from offsite.repository.snapshots.named_object import get_cluster_snapshot
from offsite.repository.snapshots.registry_snapshot import get_registry_snapshot
from offsite.repository.state import BackupState
from offsite.restore.compare.run import CompareResult
from offsite.stores.store import Store
from offsite.upkeep.verification.history import (
    CheckedHistory,
    CommitDamage,
    ObjectDamage,
    UncoveredOffsets,
    check_history,
)
from offsite.upkeep.verification.leftovers import Leftovers
from offsite.upkeep.verification.segments import SegmentFinding, make_shares, verify_share

HEADS_AT_ONCE = 16
"""Number of parallel look-ups of objects: hides the latency of an object store without troubling it."""
_STRANGERS_MAX = 1000
_HASHED_BY = {"report.html": ("report.json", "page_hash"), "before.parquet": ("change.json", "before_hash")}
"""Objects with their hash in a neighbouring record, and the member of the record."""
_READS_AT_ONCE = 16
"""Records read in parallel: checks of years are many small objects."""
_MAP_WITHOUT_DIGEST = b"OFMP\x01"


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedSegment:
    """One damaged object. The restore points `[first_commit, last_commit]` need the object."""

    key: str
    topic: str
    partition: int
    start: int
    end: int
    problem: str
    first_commit: int
    last_commit: int


class VerifyVerdict(StrEnum):
    """Verdict of a check. `DIFFERENT`, `UNKNOWN`: the backup is whole, and the compared cluster differs, or nothing
    could be compared."""

    OK = "ok"
    DAMAGED = "damaged"
    DIFFERENT = "different"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    """Result of a check. `ok`: every listed object exists and is whole, as far as this depth can tell; a compared
    cluster (`against`) holds the records of the backup. Damaged snapshots cost no records, and `leftovers` nothing at
    all; None when not looked for.

    - `unaccounted`: offsets that commits moved past without data or evidence: the backup does not hold all that it
      claims.
    - `unproven`: the same in commits of earlier versions, which did not keep the evidence: compaction, most likely; not
      counted against the backup.
    - `damaged_commits` cost restore points; `damaged_objects` (catalogs, records of restores) cost no data.
    - `head_commit` and `head_hash` are the newest usable commit; `missing_head`: why a head seen before is not part of
      the backup.
    - `unvouched`: objects of earlier versions without digests: their content may be as written.
    - `strangers`: foreign keys in the backup's folder and outside of backups: ignored, and harmless.
    - `verdict` follows from the other fields, and the exit code from the verdict.
    """

    ok: bool
    backup: str
    depth: str
    commits: int
    segments: int
    records: int
    bytes: int
    damaged: tuple[DamagedSegment, ...]
    unaccounted: tuple[UncoveredOffsets, ...] = ()
    unproven: tuple[UncoveredOffsets, ...] = ()
    damaged_snapshots: tuple[SnapshotDamage, ...] = ()
    damaged_commits: tuple[CommitDamage, ...] = ()
    damaged_objects: tuple[ObjectDamage, ...] = ()
    head_commit: int = 0
    head_hash: str = ""
    missing_head: tuple[str, ...] = ()
    unvouched: tuple[str, ...] = ()
    against: CompareResult | None = None
    leftovers: Leftovers | None = None
    strangers: tuple[str, ...] = ()
    verdict: VerifyVerdict = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "verdict", _verdict(self))

    def and_history(self, history: CheckedHistory) -> VerifyResult:
        """The result with the damage of commits and catalogs, and their uncovered offsets."""
        unaccounted = tuple(offsets for offsets, promised in history.passed_over if promised)
        unproven = tuple(offsets for offsets, promised in history.passed_over if not promised)
        return replace(
            self,
            ok=self.ok and not unaccounted and not history.commits and not history.catalogs,
            unaccounted=unaccounted,
            unproven=unproven,
            damaged_commits=history.commits,
            damaged_objects=history.catalogs,
        )

    def and_records(self, records: CheckedRecords) -> VerifyResult:
        """The result with the damage of records besides the data."""
        return replace(
            self,
            ok=self.ok and not records.damaged,
            damaged_objects=(*self.damaged_objects, *records.damaged),
            unvouched=(*self.unvouched, *records.unvouched),
        )

    def and_missing(self, heads: Sequence[str]) -> VerifyResult:
        """The result with the reasons why heads seen before are not part of the backup."""
        return replace(self, ok=self.ok and not heads, missing_head=(*self.missing_head, *heads))

    def and_snapshots(self, snapshots: tuple[SnapshotDamage, ...]) -> VerifyResult:
        """The result with the damage of snapshots."""
        return replace(self, ok=self.ok and not snapshots, damaged_snapshots=snapshots)


def verify_quick(backup: Backup) -> VerifyResult:
    """Look up every listed object."""
    history = check_history(backup)
    head = history.head
    check = partial(_look_up_all, backup.store)
    findings = _as_of_now(backup, check(tuple(head.stored_segments())), check)
    segments = tuple(finding.segment for finding in findings)
    result = _result(backup, head, "quick", segments, findings).and_history(history)
    return result.and_snapshots(look_up_snapshots(backup, history))


def verify_deep(backup: Backup, runner: Runner, *, on_progress: OnProgress | None = None) -> VerifyResult:
    """Read every listed byte."""
    history = check_history(backup)
    head = history.head
    segments = tuple(head.stored_segments())
    check = partial(_read_all, backup, runner, on_progress)
    findings = _as_of_now(backup, check(segments), check)
    segments = tuple(finding.segment for finding in findings)
    result = _result(backup, head, "deep", segments, findings).and_history(history)
    return result.and_snapshots(read_snapshots(backup, history)).and_records(check_records(backup))


def _look_up_all(store: Store, segments: Sequence[Segment]) -> Sequence[SegmentFinding]:
    with ThreadPoolExecutor(max_workers=HEADS_AT_ONCE, thread_name_prefix="verify") as pool:
        problems = tuple(pool.map(partial(_look_up, store), segments))
    return tuple(SegmentFinding(segment=s, problem=p) for s, p in zip(segments, problems, strict=True))


def _read_all(
    backup: Backup, runner: Runner, on_progress: OnProgress | None, segments: Sequence[Segment]
) -> Sequence[SegmentFinding]:
    if not segments:
        return ()
    read, segment_shares = partial(verify_share, store=backup.store), make_shares(segments, slots=runner.slots)
    with job_named(f"verify {backup.layout.backup}: {amount(len(segments), 'segment')}"):
        return list(chain.from_iterable(runner.run(segment_shares, read, on_progress=on_progress)))


def _as_of_now(
    backup: Backup,
    findings: Sequence[SegmentFinding],
    check: Callable[[Sequence[Segment]], Sequence[SegmentFinding]],
) -> Sequence[SegmentFinding]:
    """The findings, updated: a check may outlive the checked objects. An object removed by retention or replaced
    meanwhile, and collected, is no damage; the present segments with its records are checked instead."""
    bad = {finding.segment.key for finding in findings if finding.problem}
    now = {segment.key: segment for segment in backup.readable_state().stored_segments()} if bad else {}
    if not bad - now.keys():
        return findings
    checked = {finding.segment.key for finding in findings}
    current_findings = (finding for finding in findings if finding.segment.key not in bad - now.keys())
    return (*current_findings, *check([segment for key, segment in now.items() if key not in checked]))


def _verdict(result: VerifyResult) -> VerifyVerdict:
    if result.missing_head:
        return VerifyVerdict.DAMAGED
    if result.against is None:
        return VerifyVerdict.OK if result.ok else VerifyVerdict.DAMAGED
    if result.against.verified is None:
        return VerifyVerdict.UNKNOWN
    return VerifyVerdict.OK if result.against.verified else VerifyVerdict.DIFFERENT


def _look_up(store: Store, segment: Segment) -> str:
    try:
        return _missing(store, segment)
    except Damaged as error:  # another object lies in its place
        return error.message


def _missing(store: Store, segment: Segment) -> str:
    info = store.head(segment.object_key)
    if info is None:
        return "the object is missing" if segment.pack is None else f"the pack {segment.pack} is missing"
    if not segment.is_all_in(info):
        return f"the object has {info.size_bytes} bytes instead of {segment.object_end}"
    if segment.pack is None and segment.index_key is not None and store.head(segment.index_key) is None:
        return f"its index {segment.index_key} is missing"
    return ""


def _result(
    backup: Backup, head: BackupState, depth: str, segments: Sequence[Segment], findings: Iterable[SegmentFinding]
) -> VerifyResult:
    damaged = [finding for finding in findings if finding.problem]
    return VerifyResult(
        ok=not damaged,
        backup=backup.descriptor.name,
        depth=depth,
        commits=len(head.history),
        head_commit=head.seq,
        head_hash=head.head_hash,
        unvouched=unvouched_objects(backup, head),
        segments=len(segments),
        records=sum(segment.records for segment in segments),
        bytes=sum(segment.stored_bytes for segment in segments),
        damaged=tuple(_segment_damages(backup, head, damaged)),
        strangers=tuple(_strangers(backup)),
    )


def _strangers(backup: Backup) -> Iterator[str]:
    keys = chain(strangers_in(backup.store, backup.layout.backup), strangers_around(backup.store))
    try:
        yield from islice(keys, _STRANGERS_MAX)
    except OffsiteError as error:  # without the right to list everything
        warned("strangers", why=error.message, store=backup.store.url)


def _segment_damages(backup: Backup, head: BackupState, damaged: Sequence[SegmentFinding]) -> Iterator[DamagedSegment]:
    origins = find_origins(backup.log.read_down(upto=head.seq), {finding.segment.key for finding in damaged})
    last_commits = _last_points(head)
    for finding in damaged:
        segment = finding.segment
        origin = origins.get(segment.key)
        yield DamagedSegment(
            key=segment.key,
            topic=segment.topic,
            partition=segment.partition,
            start=segment.start,
            end=segment.end,
            problem=finding.problem,
            first_commit=head.seq if origin is None else origin.oldest,
            last_commit=last_commits.get(segment.key, head.seq),
        )


def _last_points(head: BackupState) -> dict[str, int]:
    """The newest restore points that need segments of branches alone, by key."""
    last_commits: dict[str, int] = {}
    for branch in head.branches:
        for segment in branch.segments:
            live = head.segments.get(branch.partition_id, ())
            if all(live_segment.key != segment.key for live_segment in live):
                last_commits[segment.key] = max(branch.last_commit, last_commits.get(segment.key, 0))
    return last_commits


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRecords:
    """Result of the check of records. `unvouched` are keys of objects without a digest or hash to prove their
    content."""

    damaged: tuple[ObjectDamage, ...]
    unvouched: tuple[str, ...]


def unvouched_objects(backup: Backup, head: BackupState) -> tuple[str, ...]:
    """The objects read by every command that have no digest, and no hash named elsewhere."""
    layout = backup.layout
    keys = (ROOT_KEY, layout.descriptor_key, layout.hint_key, *([layout.commit_key(head.seq)] if head.seq else []))
    return tuple(key for key in keys if (data := backup.store.get(key)) is not None and not _has_digest(data))


def check_records(backup: Backup) -> CheckedRecords:
    """The check of the records of `backup`, and of objects that belong to the whole repository."""
    layout, store = backup.layout, backup.store
    keys = [info.key for prefix in layout.record_prefixes for info in own_objects(store.list(prefix))]
    keys += [PROBE_KEY] if store.head(PROBE_KEY) is not None else []
    with ThreadPoolExecutor(max_workers=_READS_AT_ONCE, thread_name_prefix="verify") as pool:
        checked = tuple(zip(keys, pool.map(partial(_check_record, store), keys), strict=True))
    return CheckedRecords(
        damaged=tuple(outcome for _, outcome in checked if isinstance(outcome, ObjectDamage)),
        unvouched=tuple(key for key, outcome in checked if outcome is False),
    )


def _check_record(store: Store, key: str) -> ObjectDamage | bool:
    """The damage of the object, or else whether a digest or hash proves its content."""
    try:
        return _is_vouched_for(store, key)
    except OffsiteError as error:
        return ObjectDamage(key=key, problem=error.message)


def _is_vouched_for(store: Store, key: str) -> bool:
    """Whether a digest or hash proves the object's content. Raises `DamagedObject` for another content."""
    data = store.get(key)
    folder, _, name = key.rpartition("/")
    if data is None:
        raise DamagedObject(f"{key} is listed but cannot be read")
    if name.endswith(".map"):
        OffsetMap.from_bytes(data)
        return not data.startswith(_MAP_WITHOUT_DIGEST)
    if name in _HASHED_BY:
        record, member = _HASHED_BY[name]
        return _has_hash(store, key, data, f"{folder}/{record}", member)
    if name.endswith(".beat.json"):
        return _is_sign_of_life(key, data)
    if not _is_of_earlier_version(key, data):
        parse_json_object(data, source=key, damaged=DamagedObject)
    return _has_digest(data)


def _has_hash(store: Store, key: str, data: bytes, record: str, member: str) -> bool:
    """Compare with the hash in the neighbouring record; records of earlier versions may have none."""
    about = store.get(record)
    if about is None or _is_of_earlier_version(record, about):
        return False
    json_object = parse_json_object(about, source=record, damaged=DamagedObject)
    if json_object.text(member) != content_hash(data):
        raise DamagedObject(f"{key} does not have its recorded hash")
    return True


def _is_sign_of_life(key: str, data: bytes) -> bool:
    if data not in BEATS:
        raise DamagedObject(f"{key} is not a valid heartbeat")
    return True


def _is_of_earlier_version(key: str, data: bytes) -> bool:
    """Earlier versions wrote reports of drills in the form for scripts, and a probe that is not JSON."""
    if key == PROBE_KEY:
        return len(data) == 16 and data.isalnum()
    if "/drills/" not in key:
        return False
    try:
        fields = decode_json(data)
    except BadJson as error:
        raise DamagedObject(f"{key}: {error}") from error
    return isinstance(fields, dict) and "format" not in fields and "digest" not in fields


def _has_digest(data: bytes) -> bool:
    return check_digest(data) is DigestState.RIGHT


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDamage:
    """A damaged snapshot; commit `first_commit` was the first with the snapshot."""

    key: str
    problem: str
    first_commit: int


def look_up_snapshots(backup: Backup, history: CheckedHistory) -> tuple[SnapshotDamage, ...]:
    """The damage to snapshots of the newest commit, as far as a look-up shows."""
    head = history.head
    keys = [head.groups, *(ref.key if ref else None for ref in (head.metadata, head.registry))]
    problems = {key: _problem(backup.store, key) for key in keys if key is not None}
    return tuple(SnapshotDamage(key=key, problem=why, first_commit=head.seq) for key, why in problems.items() if why)


def read_snapshots(backup: Backup, history: CheckedHistory) -> tuple[SnapshotDamage, ...]:
    """The damage to all snapshots named by commits. Reads all of them."""
    return tuple(_snapshot_damages(backup.store, history))


def _problem(store: Store, key: str) -> str:
    try:
        return f"{key} is missing" if store.head(key) is None else ""
    except DamagedObject as error:  # the commit names an impossible key
        return error.message


def _snapshot_damages(store: Store, history: CheckedHistory) -> Iterator[SnapshotDamage]:
    for key, seq in history.groups.items():
        try:
            get_group_snapshot(store, key)
        except DamagedObject as error:
            yield SnapshotDamage(key=key, problem=error.message, first_commit=seq)
    for refs, get in ((history.settings, get_cluster_snapshot), (history.registries, get_registry_snapshot)):
        for ref, seq in refs.items():
            try:
                get(store, ref)
            except DamagedObject as error:
                yield SnapshotDamage(key=ref.key, problem=error.message, first_commit=seq)
