"""What is remembered of a restore, so that the same command can finish it after a crash.

Three objects below `restores/<restore>/`, each written once: `restore.json` before anything is touched,
`targets.json` when the target topics exist (`targets-2.json` when they were made again), `report.json` at the end (see
`outcome`). A restore without a report is unfinished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

from offsite.log.range import TopicPartition
from offsite.model.choices import CutChoice
from offsite.model.errors import DamagedObject, FormatTooNew, RestoreTakenOver
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.model.untrusted.names import is_backup_name
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.repository.layout import BackupLayout, own
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.topic_settings import TopicSettings, topic_settings_from_json, topic_settings_to_json
from offsite.stores.store import PutResult, Store

_UNREADABLE = (DamagedObject, FormatTooNew)

_LAST_STEPS = frozenset({"groups"})

_STAMP_CHARS = len("20260101-000000")
"""A restore's name begins with the second in which it began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRecord:
    """What a restore will do, as it is remembered.

    `request` is what was asked for, as sorted pairs of texts. With `until_ms` only records dated then or before.
    `topics` pairs source names with target names, sorted; `created` are the targets that did not exist before.
    `settings` is what was decided for each target topic; `preserved` are those that keep the source's offsets.
    `incarnations` pairs source names with the ids of the topics that were taken; restores of older versions lack it:
    they took the newest. `cut`: consistent or as-copied (see `CutChoice`); older versions knew the latter alone.
    """

    restore: str
    commit: int
    cluster_id: str
    request: tuple[tuple[str, str], ...]
    isolation: str
    offsets: str
    created_at_ms: int
    topics: tuple[tuple[str, str], ...]
    created: tuple[str, ...]
    until_ms: int | None = None
    settings: tuple[TopicSettings, ...] = ()
    preserved: tuple[str, ...] = ()
    incarnations: tuple[tuple[str, str], ...] = ()
    cut: CutChoice = CutChoice.AS_COPIED

    @property
    def wanted(self) -> tuple[object, ...]:
        """What makes two restores the same one: the cluster, and what was asked for, but for what is done when all
        records are there. That may be asked for otherwise by whoever goes on with it."""
        return self.cluster_id, without_last_steps(self.request)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreTargets:
    """The target topics as the restore found or made them: their ids, and where each partition ended before it.
    `makings` says which making of a topic that is, where it is not the first one."""

    topic_ids: tuple[tuple[str, str], ...]
    starts: tuple[tuple[TopicPartition, int], ...]
    makings: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableRestore:
    """A restore that has begun and has no report, and whose record cannot be read."""

    restore: str
    problem: str

    def error(self, backup: BackupLayout) -> DamagedObject:
        """What to tell whoever cannot go on without it."""
        folder = backup.restores_prefix(self.restore)
        return DamagedObject(self.problem, hint=f"look at it; where it is no restore of yours, delete {folder}")


def without_last_steps(request: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """What of a request says which records come back, and how."""
    return tuple((name, text) for name, text in request if name not in _LAST_STEPS)


def put_record(store: Store, layout: RestoreLayout, record: RestoreRecord) -> None:
    store.put_if_absent(layout.record_key, encode_record(record))


def encode_record(record: RestoreRecord) -> bytes:
    """The bytes of the record as they are stored."""
    return encode_object({"format": FORMAT, **_record_fields(record)})


def put_targets(store: Store, layout: RestoreLayout, targets: RestoreTargets, *, number: int) -> None:
    """Remember the topics as they were made now, `number` being one more than `targets_known` said; what was remembered
    before stays, and does not count any more. Raises `RestoreTakenOver` when another process was quicker."""
    if store.put_if_absent(layout.targets_key(number), encode_targets(targets)) is PutResult.OTHER:
        raise RestoreTakenOver(
            f"another process made the target topics of restore {layout.restore} at the same time",
            hint="run the same command again when it has ended",
        )


def encode_targets(targets: RestoreTargets) -> bytes:
    """The bytes of what is remembered of target topics as they are stored."""
    starts: list[JsonValue] = [
        {"topic": each.topic, "partition": each.partition, "start": start} for each, start in targets.starts
    ]
    fields: dict[str, JsonValue] = {"format": FORMAT, "topic_ids": dict(targets.topic_ids), "starts": starts}
    if targets.makings:
        fields["makings"] = dict(targets.makings)
    return encode_object(fields)


def get_targets(store: Store, layout: RestoreLayout) -> RestoreTargets | None:
    """The target topics as they were made last; None while they were not. Raises `DamagedObject`, `FormatTooNew`."""
    key = layout.targets_key(max(targets_known(store, layout), 1))
    data = store.get(key)
    if data is None:
        return None
    item = parse_json_object(data, source=key, damaged=DamagedObject)
    makings = item.child("makings").fields if "makings" in item.fields else {}
    return RestoreTargets(
        topic_ids=item.text_map("topic_ids"),
        starts=tuple(map(_start, item.children("starts"))),
        makings=tuple(sorted((topic, item.child("makings").integer(topic)) for topic in makings)),
    )


def targets_known(store: Store, layout: RestoreLayout) -> int:
    """How often the target topics were made."""
    return next(number for number in count() if store.head(layout.targets_key(number + 1)) is None)


def find_record(store: Store, layout: RestoreLayout) -> RestoreRecord | None:
    """The restore that `layout` names, finished or not; None when there is none. Raises `DamagedObject`."""
    data = store.get(layout.record_key)
    return None if data is None else _record(parse_json_object(data, source=layout.record_key, damaged=DamagedObject))


def unfinished_restores(store: Store, backup: BackupLayout) -> Iterator[RestoreRecord]:
    """Restores that have begun and have no report, oldest first. Raises `DamagedObject` where one cannot be read."""
    for found in try_unfinished_restores(store, backup):
        if isinstance(found, UnreadableRestore):
            raise found.error(backup)
        yield found


def try_unfinished_restores(store: Store, backup: BackupLayout) -> Iterator[RestoreRecord | UnreadableRestore]:
    """The same, and in the place of each one that cannot be read what is wrong with it."""
    for name in sorted(restore_names(store, backup)):
        layout = RestoreLayout(backup=backup, restore=name)
        try:
            if store.head(layout.report_key) is None and (record := find_record(store, layout)) is not None:
                yield record
        except _UNREADABLE as error:
            yield UnreadableRestore(restore=name, problem=error.message)


def succeeding(
    store: Store,
    backup: BackupLayout,
    record: RestoreRecord,
    *,
    counts: Callable[[RestoreRecord], bool] | None = None,
) -> RestoreRecord | None:
    """A restore of the same request into the same cluster that began after `record`, ended or not: then `record` is
    given up, and what is there is the later one's. Reads none that began before it. `counts`: of what was read, which
    ones count; then what cannot be read does not. Raises `DamagedObject` otherwise."""
    for name in sorted(restore_names(store, backup)):
        if name[:_STAMP_CHARS] < record.restore[:_STAMP_CHARS] or name == record.restore:
            continue
        try:
            other = find_record(store, RestoreLayout(backup=backup, restore=name))
        except _UNREADABLE:
            if counts is None:
                raise
            continue
        if other is None or _order(other) <= _order(record) or other.wanted != record.wanted:
            continue
        if counts is None or counts(other):
            return other
    return None


def _order(record: RestoreRecord) -> tuple[int, str]:
    return (record.created_at_ms, record.restore)


def restore_names(store: Store, backup: BackupLayout) -> set[str]:
    """The names of all restores that lie there, those that a restore can have: what else there is, is none of ours."""
    prefix = f"{backup.prefix}restores/"
    names = {info.key.removeprefix(prefix).split("/")[0] for info in own(store.list(prefix))}
    return set(filter(is_backup_name, names))


def _record_fields(record: RestoreRecord) -> dict[str, JsonValue]:
    return {
        "restore": record.restore,
        "commit": record.commit,
        "cluster_id": record.cluster_id,
        "request": dict(record.request),
        "isolation": record.isolation,
        "offsets": record.offsets,
        "created_at_ms": record.created_at_ms,
        "topics": dict(record.topics),
        "created": list(record.created),
        "until_ms": record.until_ms,
        "preserved": list(record.preserved),
        "incarnations": dict(record.incarnations),
        "cut": str(record.cut),
        "settings": [topic_settings_to_json(each) for each in record.settings],
    }


def _record(item: JsonObject) -> RestoreRecord:
    return RestoreRecord(
        restore=item.text("restore"),
        commit=item.integer("commit"),
        cluster_id=item.text("cluster_id"),
        request=item.text_map("request"),
        isolation=item.text("isolation"),
        offsets=item.text("offsets"),
        created_at_ms=item.integer("created_at_ms"),
        topics=item.text_map("topics"),
        created=item.texts("created"),
        until_ms=item.optional_integer("until_ms"),
        settings=tuple(map(topic_settings_from_json, item.children("settings"))),
        preserved=item.texts("preserved"),
        incarnations=item.text_map("incarnations") if "incarnations" in item.fields else (),
        cut=_cut(item),
    )


def _cut(item: JsonObject) -> CutChoice:
    if "cut" not in item.fields:
        return CutChoice.AS_COPIED
    known = {str(each): each for each in CutChoice}
    if (text := item.text("cut")) not in known:
        raise item.wrong("cut", f"one of {', '.join(known)}")
    return known[text]


def _start(item: JsonObject) -> tuple[TopicPartition, int]:
    return TopicPartition(topic=item.text("topic"), partition=item.integer("partition")), item.integer("start")
