"""Views of a folder for people: resources with their last status, the queue, and the holders of locks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from offsite.model.clock import Clock
from offsite.model.errors import BadOption, OffsiteError, ResourceNotFound
from offsite.model.untrusted.json_object import JsonValue
from offsite.operator.core.accounts import Accounts, read_accounts
from offsite.operator.core.expiry_jobs import ExpiryJobs
from offsite.operator.core.files import FolderLayout, read_json
from offsite.operator.core.records import ResourceRecord
from offsite.operator.core.status import Fields
from offsite.operator.decide.desired import RepositoryPlace
from offsite.operator.decide.queue import QueueRules
from offsite.operator.folder.declarations import read_declared
from offsite.operator.folder.resources import ResourceRecords, Statuses, last_look_ms
from offsite.operator.resources.model import ResourceKey
from offsite.operator.resources.parse import KINDS
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.lease import ProcessIdentity

SILENT_S = 120
"""An operator records a look every half minute; a round over slow repositories takes longer."""
NOT_LOOKED_AT = "not processed yet: is an operator running?"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLine:
    """One line of `get`. Times as in the status, empty: none. `latest_restorable`: of the live backup, not of an
    outgoing one. `age_s`: seconds since the resource was first seen, -1: never. `looked_s`: seconds since an operator
    looked, -1: never. `silent`: so long ago that the status may be outdated. `message`: differences from the spec."""

    kind: str
    name: str
    state: str
    generation: int
    reconciled: bool
    oldest_data: str
    latest_restorable: str
    age_s: int
    looked_s: int
    silent: bool
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceList:
    folder: str
    resources: tuple[ResourceLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlace:
    """The position of a backup in the expiry queue. `position`: from 1; 0: not queued."""

    position: int
    of: int
    running: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LastJob:
    """The last expiry job. Times in epoch ms, `ended_ms` 0 while the job runs. `exit_code` -1: killed. `said`: last
    line of output."""

    deletion: bool
    started_ms: int
    ended_ms: int
    exit_code: int
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LockHolder:
    """`what`: lock, agent or expiry. `holder`: description of the process."""

    what: str
    repository: str
    holder: str
    since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceDetail:
    """All about one resource. `spec`: the spec in force; empty if none was accepted yet. `problems`: why locks could
    not be read."""

    line: ResourceLine
    uid: str
    file: str
    deletion_asked: bool
    spec: Fields
    status: Fields
    queue: QueuePlace | None
    last_job: LastJob | None
    locks: tuple[LockHolder, ...]
    problems: tuple[str, ...]


def parse_kind(text: str) -> str:
    """Return a kind as people write it: any case, singular or plural. Raises `BadOption`."""
    match = next((kind for kind in KINDS if text.lower() in {kind.lower(), f"{kind.lower()}s"}), None)
    if match is None:
        raise BadOption(f"{text!r} is not a kind of resource", hint=f"known are: {', '.join(KINDS)}")
    return match


def list_resources(layout: FolderLayout, *, kind: str | None, name: str | None, now_ms: int) -> ResourceList:
    """Raises `ResourceNotFound` if a requested name does not exist."""
    records, statuses = ResourceRecords(layout=layout), Statuses(layout)
    records_by_key = {record.key: record for record in records.all()}
    keys = {*records_by_key, *(document.key for document in read_declared(layout.root).documents)}
    chosen = [key for key in sorted(keys) if kind in {None, key[0]} and name in {None, key[1]}]
    if name is not None and not chosen:
        raise ResourceNotFound(f"there is no {kind} {name} in {layout.root}", hint="see: offsite operator get")
    lines = (_line(key, records_by_key.get(key), statuses.read(*key), now_ms) for key in chosen)
    return ResourceList(folder=str(layout.root), resources=tuple(lines))


def describe(layout: FolderLayout, *, kind: str, name: str, clock: Clock) -> ResourceDetail:
    """Describe a resource, with the locks in its repositories; a silent repository is reported. Raises
    `ResourceNotFound`."""
    (line,) = list_resources(layout, kind=kind, name=name, now_ms=clock.now_ms()).resources
    record, document = ResourceRecords(layout=layout).find(kind, name), Statuses(layout).read(kind, name)
    locks, problems = list[LockHolder](), list[str]()
    for place in record.places if record is not None else ():
        try:
            locks += _locks(Accounts(listed=read_accounts(layout)), record.ledger if record else "", place)
        except OffsiteError as error:
            problems.append(f"{place.repository}: {error.id}: {error.message}")
    return ResourceDetail(
        line=line,
        uid=record.uid if record is not None else "",
        file=record.source if record is not None else "",
        deletion_asked=record is not None and record.is_deleted,
        spec=record.spec if record is not None else {},
        status=_map(document.get("status")),
        queue=_queue(layout, record.uid) if record is not None and kind == "Backup" else None,
        last_job=_last_job(layout, record.uid, clock) if record is not None else None,
        locks=tuple(locks),
        problems=tuple(problems),
    )


def read_backup_names(layout: FolderLayout, key: ResourceKey) -> tuple[str, ...]:
    """Return the names of low-level backups in the last status."""
    backups = _maps(_map(Statuses(layout).read(*key).get("status")).get("backups"))
    return tuple(f"{backup.get('repository')}#{backup.get('backup')}" for backup in backups)


def _line(key: ResourceKey, record: ResourceRecord | None, document: Fields, now_ms: int) -> ResourceLine:
    status = _map(document.get("status"))
    backups = _maps(status.get("backups"))
    conditions = _maps(status.get("conditions"))
    message = "; ".join(f"{condition.get('type')}: {condition.get('message')}" for condition in conditions) or _text(
        status, "message"
    )
    looked_s = _since_s(last_look_ms(document), now_ms)
    return ResourceLine(
        kind=key[0],
        name=key[1],
        state=_text(status, "state") or _text(status, "phase") or "unknown",
        generation=record.generation if record is not None else 0,
        reconciled=status.get("reconciled") is True and _is_of(document, record),
        oldest_data=min(_times(backups, "oldestData"), default=""),
        latest_restorable=next(_times(backups[-1:], "latestRestorable"), ""),
        age_s=_since_s(record.created_ms, now_ms) if record is not None else -1,
        looked_s=looked_s,
        silent=not 0 <= looked_s <= SILENT_S,
        message=message if status else NOT_LOOKED_AT,
    )


def _since_s(at_ms: int, now_ms: int) -> int:
    return max(0, (now_ms - at_ms) // 1000) if at_ms >= 0 else -1


def _is_of(document: Fields, record: ResourceRecord | None) -> bool:
    """Whether a status is about the spec in force."""
    observed = _map(document.get("status")).get("observedGeneration")
    return record is not None and observed == record.generation


def _times(backups: Sequence[Fields], name: str) -> Iterator[str]:
    for backup in backups:
        if text := _text(_map(backup.get(name)), "timestamp"):
            yield text


def _queue(layout: FolderLayout, uid: str) -> QueuePlace:
    document = read_json(layout.queue)
    waiting = tuple(document.texts("waiting")) if document is not None else ()
    return QueuePlace(
        position=waiting.index(uid) + 1 if uid in waiting else 0,
        of=len(waiting),
        running=document is not None and uid in document.texts("running"),
    )


def _last_job(layout: FolderLayout, uid: str, clock: Clock) -> LastJob | None:
    job = ExpiryJobs(layout, QueueRules(), clock=clock).job(uid)
    if job is None:
        return None
    return LastJob(
        deletion=job.is_deletion,
        started_ms=job.started_ms,
        ended_ms=job.ended_ms,
        exit_code=job.exit_code,
        said=job.said,
    )


def _locks(accounts: Accounts, uid: str, place: RepositoryPlace) -> Iterable[LockHolder]:
    store, layout, mine = accounts.open_store(place), DeclaredLayout(uid=uid), ProcessIdentity.current()
    for role, lease in (("lock", layout.lock(store)), ("agent", layout.agent(store)), ("expiry", layout.expiry(store))):
        if (claim := lease.holder(asking=mine)) is not None:
            yield LockHolder(what=role, repository=place.repository, holder=claim.holder.text, since_ms=claim.since_ms)


def _map(value: JsonValue) -> Fields:
    return value if isinstance(value, Mapping) else {}


def _maps(value: JsonValue) -> list[Fields]:
    return [part for part in value if isinstance(part, Mapping)] if isinstance(value, list) else []


def _text(fields: Fields, name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""
