from __future__ import annotations

from pathlib import Path

import pytest

from offsite.engine.rate_limits import RateLimits
from offsite.log.range import TopicPartition
from offsite.model.errors import BadOption
from offsite.model.options import Keyless
from offsite.restore.options import RestoreWords, parse_restore, parse_restore_limits
from offsite.restore.request import RestoreRequest, encode_request

CUT = "topic,partition,offset\norders,0,12\n"


def requested(**options: object) -> RestoreRequest:
    return parse_restore(RestoreWords(**options))  # type: ignore[typeddict-item]


@pytest.fixture
def cut(tmp_path: Path) -> Path:
    path = tmp_path / "cut.csv"
    path.write_text(CUT)
    return path


CONTRADICTIONS: dict[str, dict[str, object]] = {
    "two commits": {"commit": 1, "committed_at": "1h-ago"},
    "a commit and a checkpoint": {"commit": 1, "checkpoint": 1},
    "a commit by time and a checkpoint": {"committed_at": "1h-ago", "checkpoint": 1},
    "a time and a checkpoint": {"at": "1h-ago", "checkpoint": 1},
    "an offset and a checkpoint": {"before": ["topic=orders,partition=0,offset=1"], "checkpoint": 1},
}


@pytest.mark.parametrize("options", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_options_that_name_two_points_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(BadOption, match="both set the end"):
        requested(**options)


@pytest.mark.parametrize("other", [{"at": "1h-ago"}, {"before": ["topic=a,partition=0,offset=1"]}, {"checkpoint": 1}])
def test_a_file_of_offsets_is_a_whole_cut(cut: Path, other: dict[str, object]) -> None:
    assert requested(offsets_file=cut, commit=1).ends == {TopicPartition(topic="orders", partition=0): 12}
    with pytest.raises(BadOption, match="--offsets-file"):
        requested(offsets_file=cut, **other)


def test_a_time_and_an_offset_take_a_part_of_any_commit() -> None:
    request = requested(at="1h-ago", before=["topic=orders,partition=0,offset=1"], committed_at="1h-ago")
    assert (request.at, request.committed_at) == ("1h-ago", "1h-ago")


def test_what_preserving_cannot_do_is_named_before_what_cannot_be_read() -> None:
    with pytest.raises(BadOption, match="--offsets preserve replays transactions"):
        requested(offsets="preserve", isolation="read_uncommitted", partitions=["nonsense"])


def test_a_size_of_new_batches_is_a_part_of_what_is_restored() -> None:
    usual, small = (requested(repartition=["12"], **more) for more in ({}, {"batch_bytes": "64kB"}))
    assert (usual.repartition.batch_bytes, small.repartition.batch_bytes) == (None, 64_000)
    assert encode_request(usual) == encode_request(requested(repartition=["12"]))
    assert encode_request(small) != encode_request(usual), "where a batch ends, an attempt that goes on must know"


@pytest.mark.parametrize("size", ["much", "15kB", "1.1MB", "0"])
def test_a_size_that_makes_no_sense_is_refused(size: str) -> None:
    with pytest.raises(BadOption, match="--batch-bytes"):
        requested(repartition=["12"], batch_bytes=size)


def test_where_no_batches_are_made_their_size_is_refused_with_what_to_do() -> None:
    with pytest.raises(BadOption, match="stay as they were at the source") as refusal:
        requested(batch_bytes="64kB")
    assert "--write-limit" in refusal.value.hint


def test_a_write_limit_is_no_part_of_what_is_restored_and_is_read_by_plans_too() -> None:
    assert encode_request(requested(write_limit="50MB")) == encode_request(requested())
    assert parse_restore_limits({"write_limit": "50MB"}) == RateLimits(write_bytes_per_s=50_000_000)
    assert parse_restore_limits({}) == RateLimits()
    with pytest.raises(BadOption, match="--write-limit"):
        requested(write_limit="much")


def test_an_offsets_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name in ("missing", "binary"):
        with pytest.raises(BadOption, match=name):
            requested(offsets_file=tmp_path / name)


def test_chosen_partitions_choose_their_topics_unless_topics_are_named() -> None:
    assert requested(partitions=["orders:0", "users:1"]).selection.include == ("orders", "users")
    assert requested(partitions=["orders:0"], topics=["*"]).selection.include == ("*",)


def test_requests_are_equal_when_they_say_the_same_and_differ_when_they_do_not(cut: Path) -> None:
    said: list[dict[str, object]] = [
        {},
        {"at": "1h-ago"},
        {"committed_at": "1h-ago"},
        {"checkpoint": 0},
        {"before": ["topic=orders,partition=0,offset=1"]},
        {"before": ["topic=orders,partition=0,offset=2"]},
        {"offsets_file": cut},
        {"partitions": ["orders:0"]},
        {"rename": ["*=*-x"]},
        {"repartition": ["orders=3"]},
        {"repartition": ["orders=3"], "keyless": Keyless.IN_TURN},
    ]
    texts = [encode_request(requested(**each)) for each in said]
    assert texts == [encode_request(requested(**each)) for each in said]
    assert len(set(texts)) == len(said)
