"""The target topics of a restore as found or made: recorded, so that the next run recognizes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from uuid import UUID

from offsite.kafka.cluster import TopicOffsetSource
from offsite.kafka.protocol.metadata import TopicMetadata
from offsite.log.range import TopicPartition
from offsite.model.errors import TargetMismatch, TargetNotEmpty
from offsite.repository.local_memory import check_own, note_written
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import (
    RestoreTargets,
    count_targets,
    encode_targets,
    get_targets,
    put_targets,
)
from offsite.stores.store import Store


def find_targets(
    store: Store,
    layout: RestoreLayout,
    admin: TopicOffsetSource,
    names: Collection[str],
    *,
    remade: Collection[str] = (),
) -> RestoreTargets:
    """The target topics of the restore: recorded by an earlier run, or read and recorded now. `remade` were just made
    again.

    Topics made again since count as new while they are empty. Raises `TargetNotEmpty`, `RestoreTakenOver` when another
    process does the same, and `RestoreRefused` when a stranger wrote the record.
    """
    listed = admin.topics(names)
    number = count_targets(store, layout)
    recorded = get_targets(store, layout)
    known_ids = dict(recorded.topic_ids) if recorded else {}
    new = {name: t for name, t in listed.items() if name in remade or _is_another(known_ids.get(name), t.topic_id)}
    if recorded is not None:
        check_own(store, layout, layout.targets_key(number))
    if recorded is not None and not new:
        return recorded
    starts = {key: start for key, start in (recorded.starts if recorded else ()) if key.topic not in new}
    starts |= _empty_ends(admin, new, again=recorded is not None)
    ids = {name: _id(topic.topic_id) for name, topic in listed.items()}
    makings = dict(recorded.makings) | dict.fromkeys(new, number + 1) if recorded else {}
    targets = RestoreTargets(
        topic_ids=tuple(sorted(ids.items())),
        starts=tuple(sorted(starts.items())),
        makings=tuple(sorted(makings.items())),
    )
    note_written(store, layout.targets_key(number + 1), encode_targets(targets))
    put_targets(store, layout, targets, number=number + 1)
    return targets


def check_nothing_lost(admin: TopicOffsetSource, begins: Mapping[TopicPartition, int]) -> None:
    """Check that the records of an earlier run still exist: an existing topic has its own retention between two runs.
    `begins`: the latest allowed start of every log. Raises `TargetMismatch`."""
    lost = {partition: now for partition, now in admin.start_offsets(begins).items() if now > begins[partition]}
    if lost:
        names = ", ".join(
            f"{partition} begins at offset {lost[partition]} instead of {begins[partition]}"
            for partition in sorted(lost)
        )
        raise TargetMismatch(
            f"records of this restore are missing: {names}",
            hint=(
                "delete these topics, create them again (empty), then run the same command: it writes them again "
                "from the start"
            ),
        )


def _empty_ends(
    admin: TopicOffsetSource, topics: Mapping[str, TopicMetadata], *, again: bool
) -> Mapping[TopicPartition, int]:
    partitions = [TopicPartition(topic=t.name, partition=p.partition) for t in topics.values() for p in t.partitions]
    starts, ends = admin.start_offsets(partitions), admin.end_offsets(partitions)
    if starts != ends:
        problem = "were created again since this restore began, and" if again else ""
        raise TargetNotEmpty(
            f"target topics {problem} hold records that this restore did not write".replace("  ", " "),
            hint="delete them and run the restore again, or restore under other names (--rename)",
        )
    return ends


def _is_another(recorded_id: str | None, listed_id: UUID | None) -> bool:
    """Brokers before 2.8 give no ids; newer brokers give an id to an existing topic."""
    if recorded_id is None:
        return True
    return listed_id is not None and recorded_id not in {_id(None), _id(listed_id)}


def _id(topic_id: UUID | None) -> str:
    return str(topic_id)
