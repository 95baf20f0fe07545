"""The keys of a repository: built and parsed here only. Pure.

    offsite.json                                                repository id, format version
    clock                                                       empty; overwritten to learn the time of an object store
    probes/create-only                                          put again and again, to check that the store refuses
    probes/doctor-<id>                                          put by a doctor, and removed at once
    backups/<backup>/backup.json                                source, selection, options: written once
    backups/<backup>/removing.json                              removal announced: no reader starts
    backups/<backup>/removed.json                               the whole backup is being removed, or was removed
    backups/<backup>/commits/<seq:020>.json                     the commit log, create-only
    backups/<backup>/catalog/<seq:020>.parquet                  folded positions, and places of segments (rebuildable)
    backups/<backup>/catalog/<seq:020>.history.parquet          the end of the list of commits (rebuildable)
    backups/<backup>/catalog-parts/<seq:020>-<hash:8hex>.parquet    segments, or older lines of the list of commits, for
                                                                this catalog and later catalogs (rebuildable)
    backups/<backup>/catalog/<seq:020>.json                     the seal: hashes of all catalog objects, written last
    backups/<backup>/catalog/hint.json                          the newest catalog, overwritten, never trusted
    backups/<backup>/topics/<topic>/partition=<nr>/<topic>+<nr>-<start:020>-<attempt:8hex>.log[.zst]
    backups/<backup>/topics/<topic>/partition=<nr>/<same without .log[.zst]>.idx
    backups/<backup>/packs/<seq:020>-<attempt:8hex>.pack        small segments and their indexes, back to back
    backups/<backup>/collected.json                             the commit up to which replaced objects are deleted:
                                                                overwritten, never trusted
    backups/<backup>/compaction.json                            stretches compacted at once: overwritten, never trusted
    backups/<backup>/retention.json                             the last retention: overwritten, never trusted
    backups/<backup>/audit/<seq:020>-<attempt:8hex>.jsonl       planned deletions when that commit was the newest
    backups/<backup>/groups/<seq:020>-<attempt:8hex>.parquet    group offsets as of that commit
    backups/<backup>/metadata/<seq:020>-<attempt:8hex>.json     the cluster's settings, stored when they change
    backups/<backup>/cuts/<seq:020>-<attempt:8hex>.json         the consistent cut of that commit
    backups/<backup>/registry/<seq:020>-<attempt:8hex>.json     the schema registry, stored when it changes
    backups/<backup>/checkpoints/<id:020>/<event>.json          requested, taken, failed, deleted
    backups/<backup>/checkpoint-taker/<term:08>.<part>.json     the process that takes checkpoints now (a lease)
    backups/<backup>/restores/<restore>/...                     records of restores
    backups/<backup>/records-of.json                            in a place for records alone (`--records`): a copy of
                                                                the backup's backup.json
    backups/<backup>/lease/<term:08>.<part>.json                of a copy of an archive: its current process (a lease)
    backups/<backup>/drills/<drill>/report.json, report.html    the result of a drill
    backups/<backup>/verifies/<depth>/<verify>.json             the result of a check
    backups/<backup>/group-changes/<change>/...                 committed offsets of groups before a change
    jobs/<job>/... job-keys/<hash>.json                         long work of coordinators, see `repository.job`
    declared/<uid>/... declared-names/<backup>...               backups of resources, see `repository.declared`
    generations/<set>/...                                       sets of generations, see `repository.generation_sets`
    operator/...                                                records of operators

An object with another name is foreign (`is_own_key`): written by a file manager, a console, or a person who made a
copy. Listings skip foreign objects (`own_objects`): they are neither damage nor a backup, and are never deleted. A file
name holds at most 255 bytes on most systems, so a topic name of more than 180 characters is cut in the file name, but
not in the folder name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from offsite.model.bounds import MAX_OFFSET
from offsite.model.errors import check
from offsite.model.names import check_backup_name, check_topic_name, is_backup_name
from offsite.stores.store import ObjectInfo, Store

ROOT_KEY = "offsite.json"
PROBES_PREFIX = "probes/"
PROBE_KEY = f"{PROBES_PREFIX}create-only"
DOCTOR_PREFIX = f"{PROBES_PREFIX}doctor-"
BACKUPS_PREFIX = "backups/"

_MAX_TOPIC_IN_FILE_NAME = 180
_PART = re.compile(r"[A-Za-z0-9._+=-]+")
_ATTEMPT = re.compile(r"[0-9a-f]{8}")
_SEGMENT = re.compile(
    r"backups/(?P<backup>[^/]+)/topics/(?P<topic>[^/]+)/partition=(?P<partition>0|[1-9]\d*)/"
    r"(?P<cut>[^/+]+)\+(?P=partition)-(?P<start>\d{20})-(?P<attempt>[0-9a-f]{8})\.(?P<suffix>log|log\.zst|idx)",
    re.ASCII,
)
_PACK = re.compile(r"backups/[^/]+/packs/(\d{20})-[0-9a-f]{8}\.pack", re.ASCII)
_COMMIT = re.compile(r"backups/[^/]+/commits/(\d{20})\.json", re.ASCII)
_SNAPSHOT = re.compile(
    r"backups/[^/]+/(?:groups/(\d{20})-[0-9a-f]{8}\.parquet|(?:metadata|cuts|registry)/(\d{20})-[0-9a-f]{8}\.json)",
    re.ASCII,
)
_CATALOG_PART = re.compile(r"backups/[^/]+/catalog-parts/(\d{20})-[0-9a-f]{8}\.parquet", re.ASCII)
_CHECKPOINT = re.compile(r"backups/[^/]+/checkpoints/(\d{20})/([a-z]+)\.json", re.ASCII)
_CATALOG = re.compile(r"backups/[^/]+/catalog/(\d{20})\.json", re.ASCII)

_NAME, _NUMBERED = r"[A-Za-z0-9._-]+", r"\d{20}-[0-9a-f]{8}"
_LEASE = r"(?:\d{8}|[1-9]\d{8,11})\.(?:claim|beat|end)\.json"
_IN_BACKUP = (
    r"(?:backup|records-of|removing|removed|collected|compaction|retention)\.json",
    r"commits/\d{20}\.json",
    r"catalog/(?:hint\.json|\d{20}\.(?:json|parquet|history\.parquet))",
    rf"(?:catalog-parts|groups)/{_NUMBERED}\.parquet",
    rf"(?:metadata|cuts|registry)/{_NUMBERED}\.json",
    rf"packs/{_NUMBERED}\.pack",
    rf"audit/{_NUMBERED}\.jsonl",
    r"checkpoints/\d{20}/[a-z]+\.json",
    rf"(?:checkpoint-taker|lease)/{_LEASE}",
    rf"restores/{_NAME}/(?:(?:restore|report|producer|(?:targets|aside)(?:-\d+)?)\.json|lease/{_LEASE})",
    rf"restores/{_NAME}/(?:schema-ids|import-modes|schemas/[0-9a-f]{{8}})\.json",
    rf"restores/{_NAME}/(?:attempts/{_NAME}/\d+/\d{{5}}\.json|maps/{_NAME}/\d+(?:\.\d+)?\.map)",
    rf"drills/{_NAME}/report\.(?:json|html)",
    rf"verifies/{_NAME}/{_NAME}\.json",
    rf"group-changes/{_NAME}/(?:change\.json|before\.parquet|undoing\.json|undone\.json)",
)
_IN_ROOT = (
    r"offsite\.json|clock|probes/(?:create-only|doctor-[0-9a-f]+)",
    rf"jobs/\d{{8}}-\d{{6}}-[0-9a-f]{{8}}/(?:(?:ends/)?{_NAME}\.json|worker/{_LEASE})",
    r"job-keys/[0-9a-f]{64}\.json",
    rf"declared/{_NAME}/(?:(?:told|kept|agent-word|probe-{_NAME})\.json|(?:lock|agent|expiry)/{_LEASE})",
    rf"declared/{_NAME}/(?:(?:ledger|restore)/\d{{20}}\.json|audit/{_NUMBERED}\.jsonl|read/\d{{8}}/{_NAME}\.json)",
    rf"declared-names/{_NAME}(?:/\d{{8}})?\.json",
    rf"generations/{_NAME}/(?:kept\.json|ledger/\d{{20}}\.json|audit/{_NUMBERED}\.jsonl)",
    rf"operator/(?:{_NAME}/)+{_NAME}\.json",
)
_OWN = re.compile("|".join((*_IN_ROOT, rf"backups/(?P<backup>[^/]+)/(?:{'|'.join(_IN_BACKUP)})")), re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentName:
    """The parts of a segment's key, or of its index's key (`suffix` idx)."""

    backup: str
    topic: str
    partition: int
    start: int
    attempt: str
    suffix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupLayout:
    """The keys of one backup. Raises `BadName` for a name that could leave its folder."""

    backup: str

    def __post_init__(self) -> None:
        check_backup_name(self.backup)

    @property
    def prefix(self) -> str:
        return f"{BACKUPS_PREFIX}{self.backup}/"

    @property
    def descriptor_key(self) -> str:
        return f"{self.prefix}backup.json"

    @property
    def removed_key(self) -> str:
        """Exists while the whole backup is removed, and for some time after; other leftovers of the backup count for
        nothing."""
        return f"{self.prefix}removed.json"

    @property
    def removing_key(self) -> str:
        """Exists while a process that wants to remove the backup looks for readers; no reader starts meanwhile."""
        return f"{self.prefix}removing.json"

    @property
    def commits_prefix(self) -> str:
        return f"{self.prefix}commits/"

    def commit_key(self, seq: int) -> str:
        return f"{self.commits_prefix}{_padded(seq)}.json"

    @property
    def catalog_prefix(self) -> str:
        return f"{self.prefix}catalog/"

    def catalog_key(self, seq: int) -> str:
        return f"{self.catalog_prefix}{_padded(seq)}.parquet"

    def history_key(self, seq: int) -> str:
        return f"{self.catalog_prefix}{_padded(seq)}.history.parquet"

    def seal_key(self, seq: int) -> str:
        return f"{self.catalog_prefix}{_padded(seq)}.json"

    @property
    def hint_key(self) -> str:
        return f"{self.catalog_prefix}hint.json"

    @property
    def parts_prefix(self) -> str:
        return f"{self.prefix}catalog-parts/"

    def part_key(self, seq: int, digits: str) -> str:
        """`digits`: the first 8 digits of the hash of the part's bytes, so that the next writer can reuse a crashed
        writer's part."""
        return f"{self.parts_prefix}{_padded(seq)}-{_checked_attempt(digits)}.parquet"

    def is_part(self, key: str) -> bool:
        """Whether `key`, an untrusted text, is the key of a catalog part of this backup."""
        return parse_part_key(key) is not None and lies_below(key, self.parts_prefix)

    @property
    def topics_prefix(self) -> str:
        return f"{self.prefix}topics/"

    @property
    def packs_prefix(self) -> str:
        return f"{self.prefix}packs/"

    def pack_key(self, seq: int, attempt: str) -> str:
        """`seq`: the newest commit when the pack was begun."""
        return f"{self.packs_prefix}{_padded(seq)}-{_checked_attempt(attempt)}.pack"

    def is_pack(self, key: str) -> bool:
        """Whether `key`, an untrusted text, is the key of a pack of this backup."""
        return _PACK.fullmatch(key) is not None and lies_below(key, self.packs_prefix)

    def is_stored_body(self, key: str) -> bool:
        """Whether `key`, an untrusted text, is the key of a pack, a segment or an index of this backup: an object that
        may be deleted after its replacement."""
        if self.is_pack(key):
            return True
        name = parse_segment_key(key)
        return name is not None and name.backup == self.backup and lies_below(key, self.topics_prefix)

    @property
    def delete_probe_key(self) -> str:
        """A key beside the packs, never written: the right to delete this key implies the right to delete packs."""
        return f"{self.packs_prefix}never-written"

    @property
    def collected_key(self) -> str:
        return f"{self.prefix}collected.json"

    @property
    def retention_key(self) -> str:
        return f"{self.prefix}retention.json"

    @property
    def compaction_key(self) -> str:
        return f"{self.prefix}compaction.json"

    @property
    def audit_prefix(self) -> str:
        return f"{self.prefix}audit/"

    def audit_key(self, seq: int, attempt: str) -> str:
        return f"{self.audit_prefix}{_padded(seq)}-{_checked_attempt(attempt)}.jsonl"

    @property
    def groups_prefix(self) -> str:
        return f"{self.prefix}groups/"

    def groups_key(self, seq: int, attempt: str) -> str:
        """`attempt` keeps a crashed writer's snapshot from blocking the next writer's snapshot."""
        return f"{self.groups_prefix}{_padded(seq)}-{_checked_attempt(attempt)}.parquet"

    @property
    def metadata_prefix(self) -> str:
        return f"{self.prefix}metadata/"

    def metadata_key(self, seq: int, attempt: str) -> str:
        return f"{self.metadata_prefix}{_padded(seq)}-{_checked_attempt(attempt)}.json"

    @property
    def cuts_prefix(self) -> str:
        return f"{self.prefix}cuts/"

    def cuts_key(self, seq: int, attempt: str) -> str:
        return f"{self.cuts_prefix}{_padded(seq)}-{_checked_attempt(attempt)}.json"

    @property
    def registry_prefix(self) -> str:
        return f"{self.prefix}registry/"

    def registry_key(self, seq: int, attempt: str) -> str:
        return f"{self.registry_prefix}{_padded(seq)}-{_checked_attempt(attempt)}.json"

    @property
    def checkpoints_prefix(self) -> str:
        return f"{self.prefix}checkpoints/"

    def checkpoint_key(self, checkpoint: int, event: str) -> str:
        """The key of one event of a checkpoint. `event`: `requested`, `taken`, `failed` or `deleted`."""
        return f"{self.checkpoints_prefix}{_padded(checkpoint)}/{event}.json"

    @property
    def checkpoint_taker_prefix(self) -> str:
        return f"{self.prefix}checkpoint-taker/"

    @property
    def records_of_key(self) -> str:
        """Exists in a place for records alone: a copy of the backup's descriptor."""
        return f"{self.prefix}records-of.json"

    def restores_prefix(self, restore: str) -> str:
        return f"{self.prefix}restores/{check_backup_name(restore)}/"

    @property
    def drills_prefix(self) -> str:
        return f"{self.prefix}drills/"

    def drill_key(self, drill: str, suffix: str) -> str:
        """The key of a drill's report. `suffix`: `json` or `html`."""
        return f"{self.drills_prefix}{check_backup_name(drill)}/report.{suffix}"

    @property
    def verifies_prefix(self) -> str:
        return f"{self.prefix}verifies/"

    def verifies_of_prefix(self, depth: str) -> str:
        return f"{self.verifies_prefix}{check_backup_name(depth)}/"

    def verify_key(self, depth: str, verify: str) -> str:
        return f"{self.verifies_of_prefix(depth)}{check_backup_name(verify)}.json"

    @property
    def group_changes_prefix(self) -> str:
        return f"{self.prefix}group-changes/"

    def group_change_prefix(self, change: str) -> str:
        return f"{self.group_changes_prefix}{check_backup_name(change)}/"

    @property
    def record_prefixes(self) -> tuple[str, ...]:
        """The folders for records of restores, drills, checks and group changes."""
        return (f"{self.prefix}restores/", self.drills_prefix, self.verifies_prefix, self.group_changes_prefix)

    def segment_key(self, *, topic: str, partition: int, start: int, attempt: str, compressed: bool) -> str:
        check_topic_name(topic)
        check(partition >= 0, f"partition {partition}")
        folder = f"{self.topics_prefix}{topic}/partition={partition}"
        name = f"{topic[:_MAX_TOPIC_IN_FILE_NAME]}+{partition}-{_padded(start)}-{_checked_attempt(attempt)}"
        return f"{folder}/{name}.log{'.zst' if compressed else ''}"


def index_key(segment_key: str) -> str:
    """The key of a segment's sidecar index."""
    return segment_key.removesuffix(".zst").removesuffix(".log") + ".idx"


def parse_segment_key(key: str) -> SegmentName | None:
    """The parts of `key` if it is the key of a segment or an index, else None."""
    match = _SEGMENT.fullmatch(key)
    if match is None or match["topic"][:_MAX_TOPIC_IN_FILE_NAME] != match["cut"]:
        return None
    return SegmentName(
        backup=match["backup"],
        topic=match["topic"],
        partition=int(match["partition"]),
        start=int(match["start"]),
        attempt=match["attempt"],
        suffix=match["suffix"],
    )


def is_own_key(key: str) -> bool:
    """Whether offsite gives such a name to an object of a repository, whatever the object holds."""
    if (match := _OWN.fullmatch(key)) is not None:
        return match["backup"] is None or is_backup_name(match["backup"])
    segment = parse_segment_key(key)
    return segment is not None and is_backup_name(segment.backup)


def own_objects(listed: Iterable[ObjectInfo]) -> Iterator[ObjectInfo]:
    """The objects of a listing with names of offsite; foreign objects are skipped."""
    return (info for info in listed if is_own_key(info.key))


def folders_below(store: Store, prefix: str) -> Iterator[str]:
    """The names of the folders directly below `prefix` with at least one object of offsite, in key order; one listing
    each. A store may normalise the requested key and list a folder again."""
    past = ""
    while info := next((info for info in own_objects(store.list(prefix, start_after=past)) if info.key > past), None):
        name, slash, _ = info.key.removeprefix(prefix).partition("/")
        if slash:
            yield name
        past = f"{prefix}{name}0" if slash else info.key  # after the whole folder: `0` follows `/`


def parse_pack_key(key: str) -> int | None:
    """The number of the newest commit when the pack was begun, if `key` is the key of a pack, else None."""
    return _number(_PACK.fullmatch(key))


def lies_below(key: str, prefix: str) -> bool:
    """Whether `key`, an untrusted text, is the key of an object below `prefix`, without leaving `prefix`."""
    parts = key.removeprefix(prefix).split("/")
    return key.startswith(prefix) and all(_PART.fullmatch(part) and part not in {".", ".."} for part in parts)


def parse_commit_key(key: str) -> int | None:
    """The sequence number in the key of a commit, else None."""
    return _number(_COMMIT.fullmatch(key))


def parse_catalog_key(key: str) -> int | None:
    """The sequence number in the key of a catalog's seal, else None."""
    return _number(_CATALOG.fullmatch(key))


def parse_checkpoint_key(key: str) -> tuple[int, str] | None:
    """The checkpoint id and the event in the key of such an object, else None. A number above the range of ids gives
    None, because only strangers write such keys."""
    match = _CHECKPOINT.fullmatch(key)
    return (int(match[1]), match[2]) if match and int(match[1]) <= MAX_OFFSET else None


def parse_part_key(key: str) -> int | None:
    """The number of the first catalog that names the part, in the part's key, else None."""
    return _number(_CATALOG_PART.fullmatch(key))


def parse_snapshot_key(key: str) -> int | None:
    """The number of the commit for which groups, cluster settings, a cut or a registry were stored, else None."""
    return _number(_SNAPSHOT.fullmatch(key))


def _number(match: re.Match[str] | None) -> int | None:
    """The number in a key. A number above the range of commits gives None, because only strangers write such keys."""
    number = int(match[match.lastindex or 0]) if match else MAX_OFFSET
    return number if number < MAX_OFFSET else None


def _padded(number: int) -> str:
    check(0 <= number < 10**20, f"number {number} does not fit a key")
    return f"{number:020d}"


def _checked_attempt(attempt: str) -> str:
    check(_ATTEMPT.fullmatch(attempt) is not None, f"attempt {attempt!r} is not 8 hexadecimal digits")
    return attempt
