from __future__ import annotations

from offsite.groups.groups_of_commits import apply_cut_offsets
from offsite.log.group_offsets import CommittedOffset, GroupOffsets, TopicOffsets
from offsite.log.range import PartitionId
from offsite.repository.snapshots.commit_cut import CutGroup

ORDERS = TopicOffsets.of(
    "orders", [CommittedOffset(0, 10, 3, "mine"), CommittedOffset(1, 20, 3, "mine")], topic_id="id"
)
GROUPS = {"pay": GroupOffsets(group="pay", kind="classic", topics=(ORDERS,))}


def _entry(  # the fields of an entry
    group: str, partition: int, offset: int, *, topic: str = "orders", topic_id: str = "id", metadata: str = ""
) -> CutGroup:
    partition_id = PartitionId(topic=topic, topic_id=topic_id, partition=partition)
    return CutGroup(group=group, partition_id=partition_id, offset=offset, metadata=metadata)


def _rows(group: GroupOffsets) -> list[tuple[str, str, CommittedOffset]]:
    return [(topic.topic, topic.topic_id, row) for topic in group.topics for row in topic]


def test_offsets_of_the_cut_take_the_place_of_the_commits_own() -> None:
    found = apply_cut_offsets(
        GROUPS, [_entry("pay", 1, 15), _entry("pay", 2, 0), _entry("new", 0, 4, topic="a", topic_id="")]
    )
    assert list(found) == ["new", "pay"]
    assert _rows(found["pay"]) == [
        ("orders", "id", CommittedOffset(0, 10, 3, "mine")),
        ("orders", "id", CommittedOffset(1, 15)),
        ("orders", "id", CommittedOffset(2, 0)),
    ]
    assert found["pay"].kind == "classic"
    assert _rows(found["new"]) == [("a", "", CommittedOffset(0, 4))]


def test_an_offset_brings_the_metadata_of_its_own_commit() -> None:
    found = apply_cut_offsets(
        GROUPS, [_entry("pay", 0, 10, metadata="stream time 7"), _entry("pay", 1, 15, metadata="at-15")]
    )
    assert _rows(found["pay"]) == [
        ("orders", "id", CommittedOffset(0, 10, metadata="stream time 7")),
        ("orders", "id", CommittedOffset(1, 15, metadata="at-15")),
    ]


def test_offsets_without_an_entry_stay_as_they_are() -> None:
    found = apply_cut_offsets(GROUPS, [_entry("pay", 1, 15)])
    assert _rows(found["pay"])[0] == ("orders", "id", CommittedOffset(0, 10, 3, "mine"))


def test_a_group_without_any_offset_is_gone() -> None:
    assert apply_cut_offsets(GROUPS, [_entry("pay", 0, -1), _entry("pay", 1, -1), _entry("other", 0, -1)]) == {}


def test_other_incarnations_keep_theirs() -> None:
    found = apply_cut_offsets(GROUPS, [_entry("pay", 0, 1, topic_id="other")])
    assert [(topic_id, row.offset) for _, topic_id, row in _rows(found["pay"])] == [
        ("id", 10),
        ("id", 20),
        ("other", 1),
    ]
