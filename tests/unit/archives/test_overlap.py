from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypothesis import given
from hypothesis import strategies as st

from offsite.archives.archive import Damage, Piece, refuse_damage
from offsite.archives.overlap import SortedRun, clip_to_piece, merge_runs
from offsite.log.records.record import Record

OFFSETS = st.lists(st.integers(0, 60), unique=True).map(sorted)


def records(offsets: Sequence[int], *, of: int = 0) -> list[Record]:
    return [Record(offset, of, 0, None, None) for offset in offsets]


def run(offsets: Sequence[int], *, of: int = 0, batch: int = 3) -> SortedRun:
    rows = records(offsets, of=of)
    return SortedRun(
        file=f"file {of}",
        start=offsets[0] if offsets else 0,
        open=lambda: iter([rows[at : at + batch] for at in range(0, len(rows), batch)]),
    )


def flat(batches: Iterator[Sequence[Record]]) -> list[Record]:
    return [record for batch in batches for record in batch]


@given(st.lists(OFFSETS, max_size=5), st.integers(1, 7))
def test_every_offset_is_given_once_in_rising_order_from_the_first_run_that_has_it(
    files: list[list[int]], batch: int
) -> None:
    told: list[Damage] = []
    given_out = flat(merge_runs([run(offsets, of=of, batch=batch) for of, offsets in enumerate(files)], told.append))
    assert [record.offset for record in given_out] == sorted(set().union(*files))
    for record in given_out:
        assert record.timestamp_ms == next(of for of, offsets in enumerate(files) if record.offset in offsets)
    assert len(told) == sum(map(len, files)) - len(given_out)  # each file has other times


@given(st.lists(OFFSETS, max_size=5), st.integers(1, 7))
def test_equal_duplicates_are_one_and_nothing_to_tell(files: list[list[int]], batch: int) -> None:
    given_out = flat(merge_runs([run(offsets, batch=batch) for offsets in files], refuse_damage))
    assert [record.offset for record in given_out] == sorted(set().union(*files))


def test_of_a_million_contradictions_only_some_are_told() -> None:
    told: list[Damage] = []
    flat(merge_runs([run(range(3_000), of=0, batch=500), run(range(3_000), of=1, batch=500)], told.append))
    assert len(told) == 1_000
    assert str(told[0]) == (
        "file 1 at byte 0: offset 0 is another record than in file 0; only one of the two can be right"
    )


def test_runs_that_do_not_overlap_are_open_one_at_a_time_and_pass_untouched() -> None:
    events: list[str] = []

    def opened(name: str, batches: list[list[Record]]) -> Iterator[list[Record]]:
        events.append(f"open {name}")
        yield from batches
        events.append(f"done {name}")

    first, second = [records([0, 1]), records([2, 5])], [records([6, 7])]
    runs = [
        SortedRun(file="a", start=0, open=lambda: opened("a", first)),
        SortedRun(file="b", start=6, open=lambda: opened("b", second)),
    ]
    given_out = list(merge_runs(runs, refuse_damage))
    assert events == ["open a", "done a", "open b", "done b"]
    assert all(batch is expected for batch, expected in zip(given_out, first + second, strict=True))


def test_a_piece_takes_only_its_offsets() -> None:
    piece = Piece(topic="t", partition=0, start=2, end=5, files=(), size_bytes=0)
    batches = iter([records([0, 1]), records([1, 2]), records([3, 4]), records([4, 5, 6])])
    assert [record.offset for record in flat(clip_to_piece(piece, batches))] == [2, 3, 4, 4]
