"""A history in chunks says what a plain list of its lines says."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from offsite.repository import commit_history
from offsite.repository.commit import Commit, CommitChanges
from offsite.repository.commit_history import CommitHistory, CommitSummary, HistoryBuilder

EMPTY = Commit(backup="b", seq=1, previous="", writer="w", committed_at_ms=1)


@pytest.fixture(autouse=True)
def _short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_history, "LINES_PER_CHUNK", 4)


def grown(found: CommitHistory, commits: range, *, forgotten: tuple[tuple[int, int], ...] = ()) -> CommitHistory:
    building = HistoryBuilder(found)
    for seq in commits:
        is_last = seq == commits[-1]
        changes = CommitChanges(forgotten=forgotten if is_last else ())
        building.append(replace(EMPTY, seq=seq, committed_at_ms=10 * seq // 3, changes=changes))
    return building.build()


def line(seq: int) -> CommitSummary:
    return CommitSummary(
        seq=seq, committed_at_ms=10 * seq // 3, records=0, raw_bytes=0, stored_bytes=0, holes=0, checkpoint=-1
    )


def check_same(found: CommitHistory, lines: list[CommitSummary]) -> None:
    assert (len(found), list(found), found[:]) == (len(lines), lines, tuple(lines))
    assert [found[at] for at in range(-len(lines), len(lines))] == [*lines, *lines]
    for seq in range(40):
        assert found.find(seq) == next((line for line in lines if line.seq == seq), None)
    for time_ms in range(130):
        assert found.latest_at(time_ms) == next((x for x in reversed(lines) if x.committed_at_ms <= time_ms), None)
        assert found.count_at(time_ms) == sum(x.committed_at_ms <= time_ms for x in lines)
    for low in range(len(lines) + 1):
        for high in range(low, len(lines) + 1):
            assert list(found.lines(low, high)[0]) == [x.seq for x in lines[low:high]]
    assert found.first_ms == (lines[0].committed_at_ms if lines else 0)
    with pytest.raises(IndexError):
        found[len(lines)]


def test_a_history_ends_at_any_commit_also_behind_what_is_forgotten() -> None:
    for forgotten in ((), ((3, 8),), ((1, 2), (4, 5), (8, 17), (23, 24))):
        whole = grown(CommitHistory(), range(1, 24), forgotten=forgotten)
        for seq in range(26):
            check_same(whole.upto(seq), [each for each in whole if each.seq <= seq])


@pytest.mark.parametrize("commits", [0, 1, 3, 4, 5, 8, 23])
def test_lines_are_found_by_number_time_and_place(commits: int) -> None:
    found = grown(CommitHistory(), range(1, commits + 1)) if commits else CommitHistory()
    check_same(found, [line(seq) for seq in range(1, commits + 1)])


@pytest.mark.slow
def test_what_is_forgotten_is_gone_in_every_chunk() -> None:
    drawn = random.Random(3)
    for _ in range(200):
        spans = tuple((low, low + drawn.randrange(12)) for low in drawn.choices(range(1, 30), k=3))
        found = grown(grown(CommitHistory(), range(1, 20)), range(20, 30), forgotten=spans)
        lines = list(grown(CommitHistory(), range(1, 30)))
        check_same(found, [x for x in lines if not any(low <= x.seq < high for low, high in spans)])
        check_same(grown(found, range(30, 36)), [*list(found), *list(grown(CommitHistory(), range(1, 36)))[29:]])


def test_full_chunks_are_shared_and_a_state_never_changes() -> None:
    first = grown(CommitHistory(), range(1, 11))
    second = grown(first, range(11, 20))
    assert second.chunks[: len(first.chunks)] == first.chunks
    assert [line.seq for line in first] == list(range(1, 11))


def test_equal_lines_are_equal_however_they_are_cut() -> None:
    whole = grown(CommitHistory(), range(1, 20), forgotten=((3, 6),))
    again = CommitHistory(whole.between(0, 99))
    assert [chunk.lines for chunk in whole.chunks] != [chunk.lines for chunk in again.chunks]
    assert whole == again
    assert whole != grown(CommitHistory(), range(1, 20), forgotten=((3, 7),))
