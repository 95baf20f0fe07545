"""The text of a request lies in restore records and is compared with those of earlier versions: it never changes."""

from __future__ import annotations

from offsite.log.offset_vector import parse_before, parse_offsets
from offsite.model.selection import TopicSelection, parse_groups, parse_selection
from offsite.model.topic_choices import parse_partition_counts, parse_partitions, parse_renames
from offsite.restore.request import RestoreRequest, encode_request


def test_a_request_that_says_little_is_remembered_as_it_always_was() -> None:
    assert encode_request(RestoreRequest(selection=parse_selection(["*"]))) == (
        ("isolation", "read_committed"),
        ("offsets", "translate"),
        ("retention", "hold"),
        ("selection", "*"),
    )


def test_every_field_is_remembered_as_it_always_was() -> None:
    request = RestoreRequest(
        selection=TopicSelection(include=("users", "orders*", "users"), exclude=("tmp", "regex:^x")),
        partitions=parse_partitions(["orders:0,2-5"]),
        repartition=parse_partition_counts(["orders=3", "users=5"], keyless_in_turn=True),
        renames=parse_renames(["orders=orders-back", "*=*-x"]),
        commit=7,
        committed_at="2026-11-20T14:00Z",
        checkpoint=0,
        at="2h-ago",
        ends=parse_offsets("orders,1,3\norders,0,12"),
        before=parse_before(["topic=users,partition=0,offset=25"]),
        incarnations={"users": "2", "orders": "oldest"},
        isolation="read_uncommitted",
        offsets="preserve",
        metadata=("acls", "quotas"),
        retention="override",
        groups=parse_groups(["app-*", "other"]),
    )
    assert encode_request(request) == (
        ("at", "2h-ago"),
        ("before", "users/0=25"),
        ("checkpoint", "0"),
        ("commit", "7"),
        ("committed_at", "2026-11-20T14:00Z"),
        ("ends", "orders/0=12,orders/1=3"),
        ("groups", "app-*,other"),
        ("incarnations", "orders=oldest,users=2"),
        ("isolation", "read_uncommitted"),
        ("metadata", "acls,quotas"),
        ("offsets", "preserve"),
        ("partitions", "orders:0,2-5"),
        ("renames", "orders=orders-back,*=*-x"),
        ("repartition", "orders=3,users=5,keyless in turn"),
        ("retention", "override"),
        ("selection", "orders*,users,!regex:^x,!tmp"),
    )
