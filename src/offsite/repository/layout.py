"""The keys of a repository: built here, parsed here, nowhere else. Pure.

    offsite.json                                                repository id, format version
    clock                                                       empty; overwritten to learn the time of an object store
    probes/create-only                                          put again and again, to see that it is refused
    probes/doctor-<id>                                          put by a doctor, who removes it at once
    backups/<backup>/backup.json                                source, selection, options: written once
    backups/<backup>/removing.json                              that it is about to be: nobody begins to read it
    backups/<backup>/removed.json                               that it is removed as a whole, or was
    backups/<backup>/commits/<seq:020>.json                     the commit log, create-only
    backups/<backup>/catalog/<seq:020>.parquet                  folded positions, and where segments are (rebuildable)
    backups/<backup>/catalog/<seq:020>.history.parquet          the end of the list of commits (rebuildable)
    backups/<backup>/catalog-parts/<seq:020>-<hash:8hex>.parquet    segments, or older lines of that list, for this
                                                                catalog and later ones (rebuildable)
    backups/<backup>/catalog/<seq:020>.json                     the hashes of all these: written last, makes them count
    backups/<backup>/catalog/hint.json                          the newest catalog, overwritten, never trusted
    backups/<backup>/topics/<topic>/partition=<nr>/<topic>+<nr>-<start:020>-<attempt:8hex>.log[.zst]
    backups/<backup>/topics/<topic>/partition=<nr>/<same without .log[.zst]>.idx
    backups/<backup>/packs/<seq:020>-<attempt:8hex>.pack        small segments and their indexes, back to back
    backups/<backup>/collected.json                             up to which commit what was replaced is deleted:
                                                                overwritten, never trusted
    backups/<backup>/compaction.json                            what was compacted at once: overwritten, never trusted
    backups/<backup>/retention.json                             what retention did last: overwritten, never trusted
    backups/<backup>/audit/<seq:020>-<attempt:8hex>.jsonl       what was to be deleted when that commit was the newest
    backups/<backup>/groups/<seq:020>-<attempt:8hex>.parquet    group offsets as of that commit
    backups/<backup>/metadata/<seq:020>-<attempt:8hex>.json     the cluster's settings, stored when they change
    backups/<backup>/cuts/<seq:020>-<attempt:8hex>.json         the consistent cut of that commit
    backups/<backup>/checkpoints/<id:020>/<what>.json           requested, taken, failed, deleted: what became of the id
    backups/<backup>/checkpoint-taker/<term:08>.<part>.json     who takes checkpoints now (a lease)
    backups/<backup>/restores/<restore>/...                     records of restores
    backups/<backup>/records-of.json                            in a place for records alone (`--records`): of which
                                                                backup they are, a copy of its backup.json
    backups/<backup>/lease/<term:08>.<part>.json                of a copy of an archive: who has it in hand (a lease)
    backups/<backup>/drills/<drill>/report.json, report.html    what a drill has proven
    backups/<backup>/verifies/<depth>/<verify>.json             that the backup was checked, and what was found
    backups/<backup>/group-changes/<change>/...                 what groups had committed before they were changed
    jobs/<job>/... job-keys/<hash>.json                         long work of coordinators, see `repository.jobs`
declared/<uid>/... declared-names/<backup>...               backups of resources, see `repository.declared`
generations/<set>/...                                       sets of generations, see `repository.generations`
operator/...                                                what operators keep for themselves
What has another name was put there by somebody else (`is_own_key`): a file manager, a console, a person who made a
copy. Listings pass over it (`own`), so that it is neither damage nor a backup, and nobody deletes it.
A file name holds at most 255 bytes on most systems, so a topic longer than 180 characters is cut there, not in its
folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from offsite.model.check import check
from offsite.model.untrusted.bounds import MAX_OFFSET
from offsite.model.untrusted.names import check_backup_name, check_topic_name, is_backup_name
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
    r"backups/[^/]+/(?:groups/(\d{20})-[0-9a-f]{8}\.parquet|(?:metadata|cuts)/(\d{20})-[0-9a-f]{8}\.json)",
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
    rf"(?:metadata|cuts)/{_NUMBERED}\.json",
    rf"packs/{_NUMBERED}\.pack",
    rf"audit/{_NUMBERED}\.jsonl",
    r"checkpoints/\d{20}/[a-z]+\.json",
    rf"(?:checkpoint-taker|lease)/{_LEASE}",
    rf"restores/{_NAME}/(?:(?:restore|report|producer|(?:targets|aside)(?:-\d+)?)\.json|lease/{_LEASE})",
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
    """What the key of a segment (or of its index, `suffix` idx) says."""

    backup: str
    topic: str
    partition: int
    start: int
    attempt: str
    suffix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupLayout:
    """The keys of one backup. Raises `BadName` for a name that could leave its place."""

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
        """There while the backup is removed as a whole, and for some time after: what else is left is nothing."""
        return f"{self.prefix}removed.json"

    @property
    def removing_key(self) -> str:
        """There while somebody asks whether the backup is read, to remove it: nobody begins to meanwhile."""
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
        """`digits`: the first 8 of the hash of its bytes, so that a crashed writer's part is the next one's too."""
        return f"{self.parts_prefix}{_padded(seq)}-{_checked_attempt(digits)}.parquet"

    def is_part(self, key: str) -> bool:
        """Whether `key`, which somebody else wrote, is that of a part of a catalog of this backup."""
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
        """Whether `key`, which somebody else wrote, is that of a pack of this backup."""
        return _PACK.fullmatch(key) is not None and lies_below(key, self.packs_prefix)

    def is_stored_body(self, key: str) -> bool:
        """Whether `key`, which somebody else wrote, is that of a pack, a segment or an index of this backup: of what
        may be deleted once it was replaced."""
        if self.is_pack(key):
            return True
        name = parse_segment_key(key)
        return name is not None and name.backup == self.backup and lies_below(key, self.topics_prefix)

    @property
    def never_key(self) -> str:
        """Beside packs, and never written: whoever may delete it may delete them."""
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
        """The attempt keeps a crashed writer's snapshot from blocking the next one's."""
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
    def checkpoints_prefix(self) -> str:
        return f"{self.prefix}checkpoints/"

    def checkpoint_key(self, checkpoint: int, what: str) -> str:
        """The key of one thing that is told of a checkpoint. `what`: `requested`, `taken`, `failed` or `deleted`."""
        return f"{self.checkpoints_prefix}{_padded(checkpoint)}/{what}.json"

    @property
    def checkpoint_taker_prefix(self) -> str:
        return f"{self.prefix}checkpoint-taker/"

    @property
    def records_of_key(self) -> str:
        """There where only records of the backup lie: a copy of its descriptor."""
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
        """Where restores, drills, checks and changes to groups keep their records."""
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
    """What `key` says if it is the key of a segment or of an index, else None."""
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


def own(listed: Iterable[ObjectInfo]) -> Iterator[ObjectInfo]:
    """The objects of a listing whose names are ours: what others put there is passed over."""
    return (info for info in listed if is_own_key(info.key))


def folders_below(store: Store, prefix: str) -> Iterator[str]:
    """The names of the folders right below `prefix` that hold an object of ours, in the order of keys: one listing
    each. A store may write what it is asked for in another way, and list a folder that was seen."""
    past = ""
    while info := next((info for info in own(store.list(prefix, start_after=past)) if info.key > past), None):
        name, slash, _ = info.key.removeprefix(prefix).partition("/")
        if slash:
            yield name
        past = f"{prefix}{name}0" if slash else info.key  # behind everything in it: `0` follows `/`


def parse_pack_key(key: str) -> int | None:
    """The number of the newest commit when the pack was begun, if `key` is that of a pack, else None."""
    match = _PACK.fullmatch(key)
    return int(match[1]) if match else None


def lies_below(key: str, prefix: str) -> bool:
    """Whether `key`, which somebody else wrote, is that of an object below `prefix`, and of nothing outside it."""
    parts = key.removeprefix(prefix).split("/")
    return key.startswith(prefix) and all(_PART.fullmatch(part) and part not in {".", ".."} for part in parts)


def parse_commit_key(key: str) -> int | None:
    """The sequence number in the key of a commit, else None."""
    match = _COMMIT.fullmatch(key)
    return int(match[1]) if match else None


def parse_catalog_key(key: str) -> int | None:
    """The sequence number in the key of a catalog's seal, else None."""
    match = _CATALOG.fullmatch(key)
    return int(match[1]) if match else None


def parse_checkpoint_key(key: str) -> tuple[int, str] | None:
    """The id of a checkpoint and what is told of it, in the key of such an object, else None: also for a number that is
    no id, which only strangers write."""
    match = _CHECKPOINT.fullmatch(key)
    return (int(match[1]), match[2]) if match and int(match[1]) <= MAX_OFFSET else None


def parse_part_key(key: str) -> int | None:
    """The number of the first catalog that names it, in the key of a part, else None."""
    match = _CATALOG_PART.fullmatch(key)
    return int(match[1]) if match else None


def parse_snapshot_key(key: str) -> int | None:
    """The number of the commit that groups, settings of the cluster or a cut were stored for, else None."""
    match = _SNAPSHOT.fullmatch(key)
    return int(match[1] or match[2]) if match else None


def _padded(number: int) -> str:
    check(0 <= number < 10**20, f"number {number} does not fit a key")
    return f"{number:020d}"


def _checked_attempt(attempt: str) -> str:
    check(_ATTEMPT.fullmatch(attempt) is not None, f"attempt {attempt!r} is not 8 hexadecimal digits")
    return attempt
