"""The small objects of a repository beside its commits: records of restores, snapshots, indexes, maps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache

from offsite.log.markers import Marker, Markers
from offsite.log.offset_map import OffsetMapBuilder
from offsite.log.range import PartitionId, TopicPartition
from offsite.log.transactions import OpenTransaction
from offsite.model.untrusted.bounded_json import DigestState, check_digest
from offsite.repository.layout import BackupLayout
from offsite.repository.lease import ProcessIdentity
from offsite.repository.restores.fence import PartitionFence, restore_producer_id
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import (
    RestoredPartition,
    RestoreOutcome,
    RestoreRecord,
    RestoreTargets,
    find_record,
    get_outcome,
    get_targets,
    put_outcome,
    put_record,
    put_targets,
    unfinished_restores,
)
from offsite.repository.restores.topic_settings import (
    LeftOutSetting,
    SetAsideSettings,
    TargetTopicSettings,
    get_aside,
    put_aside,
)
from offsite.repository.segments.index import Frame, SegmentIndex, decode_index, decode_markers, encode_index
from offsite.repository.snapshots.group_change import GroupChange, get_before, put_group_change, try_open_changes
from offsite.repository.snapshots.group_snapshot import decode_groups, encode_groups
from offsite.repository.snapshots.named_object import CLUSTER_SETTINGS
from tests.fuzz.corpus_repository import GROUPS, SETTINGS, numbered_attempts
from tests.fuzz.layers import layers_of
from tests.fuzz.places import MemoryStore
from tests.fuzz.reading import Reading
from tests.fuzz.renewal import has_digest, renewed
from tests.fuzz.target import Files, Target, Trust

BACKUP = BackupLayout(backup="nightly")
LAYOUT = RestoreLayout(backup=BACKUP, restore="20261121-150000-0123abcd")
SOURCE = PartitionId(topic="orders", topic_id="id", partition=1)
TARGET = TopicPartition(topic="back", partition=1)
ME = ProcessIdentity(host="h", boot="b", namespace="n", pid="999999999", started="2", user="u")
OTHER = ProcessIdentity(host="elsewhere", boot="", namespace="", pid="1", started="2", user="u")


def _map() -> bytes:
    builder = OffsetMapBuilder(source_start=0, target_start=10)
    for start in range(0, 100, 7):
        builder.add(start, 10 + start // 2 * 2, 3)
    return builder.build(source_end=120, target_end=120).to_bytes()


def _index() -> bytes:
    index = SegmentIndex(
        segment_key="backups/b/topics/t/partition=0/t+0-00000000000000000000-0123abcd.log.zst",
        frames=tuple(
            Frame(first_offset=at * 10, raw_position=at * 100, stored_position=at * 50, timestamp_max_ms=5, raw_crc=at)
            for at in range(5)
        ),
        markers=Markers([Marker(5, 7, 1, True, 3), Marker(15, 8, 1, False, -1)]),
        open=(OpenTransaction(producer_id=7, first_offset=20, last_offset=25),),
    )
    return encode_index(index)


def _alone(make: Callable[[], bytes], parts: Mapping[str, Callable[[bytes], object]], suffix: str) -> Target:
    """An object whose reader gets it behind a hash that others hold: here that always fits."""
    key = f"object{suffix}"

    def read(files: Files) -> Reading:
        found = Reading()
        for name, part in parts.items():
            with found.part():
                found.data[name] = part(files[key])
        return found

    return Target(files={key: make()}, read=read, trust=Trust.RENEWED, layers=layers_of)


def offset_map() -> Target:
    from offsite.log.offset_map import OffsetMap

    def looked_up(data: bytes) -> object:
        known = OffsetMap.from_bytes(data)
        return [known.lookup(offset) for offset in range(-1, 130, 10)], known.to_bytes()

    return _alone(_map, {"map": OffsetMap.from_bytes, "lookups": looked_up}, ".map")


def segment_index() -> Target:
    return _alone(
        _index,
        {
            "index": lambda data: decode_index(data, key="object.idx"),
            "without markers": lambda data: decode_index(data, key="object.idx", with_markers=False),
            "markers": lambda data: [list(some) for some in decode_markers(data, key="object.idx")],
        },
        ".idx",
    )


def group_snapshot() -> Target:
    return _alone(lambda: encode_groups(GROUPS), {"groups": lambda data: decode_groups(data, key="k")}, ".parquet")


def cluster_settings() -> Target:
    return _alone(
        lambda: CLUSTER_SETTINGS.encode(SETTINGS),
        {"settings": lambda data: CLUSTER_SETTINGS.decode(data, key="k")},
        ".json",
    )


@cache
def _restore_objects() -> Files:
    store = MemoryStore({})
    settings = TargetTopicSettings(
        topic="back",
        create=True,
        partitions=2,
        replication_factor=1,
        configs=(("a", "b"),),
        meanwhile=(("retention.ms", "-1"),),
        at_end=(("retention.ms", None),),
        left_out=(LeftOutSetting(setting="x", value="y", reason="z"),),
    )
    record = RestoreRecord(
        restore=LAYOUT.restore,
        commit=3,
        cluster_id="c",
        request=(("selection", "orders"),),
        isolation="read_committed",
        offsets="translate",
        created_at_ms=1_700_000_000_000,
        topics=(("orders", "back"),),
        created=("back",),
        until_ms=5,
        settings=(settings,),
        incarnations=(("orders", "id"),),
    )
    restored = RestoredPartition(
        source=SOURCE, source_end=20, target=TARGET, target_start=5, same_offsets=True, digest="blake3:aa"
    )
    outcome = RestoreOutcome(records=10, size_bytes=1000, verified=True, findings=("f",), partitions=(restored,))
    change = GroupChange(change="c1", cluster_id="c", restore=LAYOUT.restore, commit=3, created_at_ms=1)
    with numbered_attempts():
        put_record(store, LAYOUT, record)
        put_targets(store, LAYOUT, RestoreTargets(topic_ids=(("back", "id"),), starts=((TARGET, 5),)), number=1)
        put_aside(store, LAYOUT, (SetAsideSettings(topic="back", meanwhile=(("a", "b"),), originals=(("a", None),)),))
        restore_producer_id(store, LAYOUT, lambda: 77)
        PartitionFence(store=store, layout=LAYOUT, target=TARGET).take(by="me")
        LAYOUT.lease(store).claim(ME, "word", take_over=False)
        store.put_if_absent(LAYOUT.map_key(SOURCE), _map())
        put_group_change(store, BACKUP, change, GROUPS)
        put_outcome(store, LAYOUT, outcome)
    return store.objects


def restore_records(*, trust: Trust) -> Target:
    """Those without a digest have nothing that vouches for them."""
    files = _restore_objects()
    hashed = trust is Trust.HASHED
    return Target(
        files=files,
        read=_read_restore,
        trust=trust,
        seal=(lambda known, key, data: {**known, key: data}) if hashed else renewed,
        layers=(lambda _key, _data: ()) if hashed else layers_of,
    )


def _read_restore(files: Files) -> Reading:
    store, found = MemoryStore(files), Reading()
    unreported = MemoryStore({key: data for key, data in files.items() if key != LAYOUT.report_key})

    def changes() -> object:
        known = list(try_open_changes(store, BACKUP))
        for each in known:
            if not isinstance(each, GroupChange):
                raise each.error
        return known, [get_before(store, BACKUP, each) for each in known if isinstance(each, GroupChange)]

    parts: dict[str, Callable[[], object]] = {
        "record": lambda: find_record(store, LAYOUT),
        "unfinished": lambda: list(unfinished_restores(unreported, BACKUP)),
        "targets": lambda: get_targets(store, LAYOUT),
        "aside": lambda: get_aside(store, LAYOUT),
        "producer": lambda: restore_producer_id(store, LAYOUT, lambda: 0),
        "lease": lambda: LAYOUT.lease(store).holder(asking=OTHER),
        "lease here": lambda: LAYOUT.lease(store).holder(asking=ME),
        "map": lambda: LAYOUT.get_map(store, SOURCE),
        "outcome": lambda: get_outcome(store, LAYOUT),
        "changes": changes,
    }
    for name, part in parts.items():
        with found.part():
            found.data[name] = part()
    found.hear(_stripped(files))
    return found


def _stripped(files: Files) -> Iterator[str]:
    """Objects that lost their digest look like those of before there were any. There is no result that would say so."""
    for key, data in _restore_objects().items():
        if has_digest(data) and check_digest(files[key]) is DigestState.ABSENT:
            yield f"nothing vouches for {key}"
