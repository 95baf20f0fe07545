from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from offsite.metastore.reading import UNKNOWN
from offsite.metastore.restore_plan import FILLED_MAX, plan_placement
from tests.unit.metastore.commands import command


def offsets_of(records: list[int]) -> list[int]:
    """Where the commands come to lie: each transaction's records, then its marker."""
    end, found = 0, []
    for each in plan_placement([command(number, offset=offset) for number, offset in enumerate(records)]).transactions:
        found += range(end, end + len(each.records))
        end += len(each.records) + 1
    return found


@given(st.lists(st.integers(1, 4), max_size=12))
def test_each_command_comes_to_the_offset_it_had(steps: list[int]) -> None:
    offsets = [offset - 1 for offset in accumulate(steps)]
    assert offsets_of(offsets) == offsets


def test_commands_as_ksqldb_writes_them_need_nothing_filled() -> None:
    placed = plan_placement([command(number) for number in range(5)])
    assert (placed.same_offsets, placed.filled, len(placed.transactions)) == (True, 0, 5)


def test_commands_without_offsets_are_each_in_a_transaction_of_their_own() -> None:
    placed = plan_placement([command(number, offset=UNKNOWN) for number in range(3)])
    assert (placed.same_offsets, [len(each.records) for each in placed.transactions]) == (False, [1, 1, 1])
    assert "does not record the offsets" in placed.why


def test_lines_that_a_crash_left_without_entries_come_after_the_others() -> None:
    placed = plan_placement([command(0), command(1, offset=3), command(2, offset=UNKNOWN), command(3, offset=UNKNOWN)])
    assert (placed.same_offsets, placed.filled) == (True, 1)
    assert [len(each.records) for each in placed.transactions] == [1, 0, 1, 1, 1]
    assert plan_placement([command(0), command(1, offset=UNKNOWN), command(2)]).same_offsets is False


def test_too_many_empty_offsets_are_not_filled() -> None:
    placed = plan_placement([command(0, offset=FILLED_MAX + 5)])
    assert (placed.same_offsets, len(placed.transactions)) == (False, 1)
    assert plan_placement([command(0, offset=5), command(1, offset=5)]).same_offsets is False
