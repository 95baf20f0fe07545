"""Which of two topics of one name lived at a time: told by what was seen, refused where nothing tells."""

from __future__ import annotations

import pytest

from offsite.model.errors import BadOption, IncarnationUnclear
from offsite.points.incarnations import (
    IncarnationCriteria,
    IncarnationSummary,
    OffsetRange,
    choose_incarnations,
    incarnation_notes,
)

ID_A, ID_B, ID_C = "aaaa1111-old", "aabb2222-new", "cccc3333-newest"


def known(  # what may be known of it
    topic_id: str,
    number: int,
    *,
    oldest_ms: int | None,
    newest_ms: int,
    lived_from_ms: int,
    lived_to_ms: int = -1,
    of: int = 2,
) -> IncarnationSummary:
    return IncarnationSummary(
        topic="orders",
        topic_id=topic_id,
        number=number,
        of=of,
        partitions=1,
        records=10,
        ranges=(OffsetRange(partition=0, start=0, end=10),),
        oldest_ms=oldest_ms,
        newest_ms=newest_ms,
        first_commit=number,
        last_commit=number,
        last_seen_ms=lived_from_ms,
        lived_from_ms=lived_from_ms,
        lived_to_ms=lived_to_ms,
    )


OLD = known(ID_A, 1, oldest_ms=100, newest_ms=200, lived_from_ms=250, lived_to_ms=150)
NEW = known(ID_B, 2, oldest_ms=300, newest_ms=400, lived_from_ms=450)
REPLAYED = known(ID_B, 2, oldest_ms=100, newest_ms=400, lived_from_ms=450)
"""Its producer wrote the old records again, with their old dates."""
EMPTY = known(ID_B, 2, oldest_ms=None, newest_ms=-1, lived_from_ms=450)
UNDATED = known(ID_B, 2, oldest_ms=0, newest_ms=-1, lived_from_ms=450)


def taken(
    *incarnations: IncarnationSummary, named: str = "", until_ms: int | None = None, topic_id: str | None = None
) -> IncarnationSummary:
    wanted = IncarnationCriteria(
        named={"orders": named} if named else {},
        until_ms=until_ms,
        ids={} if topic_id is None else {"orders": topic_id},
        ids_because="remembered",
    )
    (found,) = (each for each in choose_incarnations({"orders": incarnations}, wanted) if each.taken)
    assert found.because
    return found


@pytest.mark.parametrize(
    ("newer", "time_ms", "number"),
    [
        (NEW, 50, 1),  # before all that is known: no other can have lived
        (NEW, 150, 1),
        (NEW, 200, 1),  # exactly the last record
        (NEW, 299, 1),  # between the two
        (NEW, 300, 2),  # exactly the first record
        (NEW, 449, 2),
        (NEW, 450, 2),
        (NEW, 9_999, 2),
        (REPLAYED, 150, 1),  # the older one was read after that time
        (REPLAYED, 99, 1),
        (REPLAYED, 450, 2),
        (EMPTY, 449, 1),
        (EMPTY, 450, 2),
    ],
)
def test_a_time_takes_the_one_that_lived_then(newer: IncarnationSummary, time_ms: int, number: int) -> None:
    assert taken(OLD, newer, until_ms=time_ms).number == number


@pytest.mark.parametrize("newer", [REPLAYED, UNDATED])
def test_what_cannot_be_told_is_refused_and_both_are_named(newer: IncarnationSummary) -> None:
    with pytest.raises(IncarnationUnclear) as refusal:
        taken(OLD, newer, until_ms=250)
    assert "incarnation 1 of 2 of orders (aaaa1111, 10 records, offsets 0 to 9," in refusal.value.message
    assert "incarnation 2 of 2 of orders (aabb2222," in refusal.value.message
    assert "--incarnation orders=1 " in refusal.value.hint
    assert "--incarnation orders=2 " in refusal.value.hint
    assert taken(OLD, newer, until_ms=250, named="oldest").number == 1


def test_clocks_that_contradict_each_other_tell_nothing() -> None:
    ahead = known(ID_A, 1, oldest_ms=100, newest_ms=500, lived_from_ms=250, lived_to_ms=500)
    with pytest.raises(IncarnationUnclear):
        taken(ahead, NEW, until_ms=470)


def test_dates_that_do_not_overlap_tell_more_than_when_the_backup_ran() -> None:
    """Both hold events of long ago, copied at other times."""
    first = known(ID_A, 1, oldest_ms=100, newest_ms=200, lived_from_ms=9_000, lived_to_ms=9_500)
    second = known(ID_B, 2, oldest_ms=300, newest_ms=400, lived_from_ms=9_900)
    assert [taken(first, second, until_ms=time_ms).number for time_ms in (150, 299, 300, 9_200)] == [1, 1, 2, 2]


def test_among_three_only_the_two_around_the_time_have_to_be_told_apart() -> None:
    unclear = known(ID_C, 3, of=3, oldest_ms=310, newest_ms=600, lived_from_ms=650)
    assert taken(OLD, NEW, unclear, until_ms=700).number == 3
    assert taken(OLD, NEW, unclear, until_ms=299).number == 1
    assert taken(OLD, NEW, unclear, until_ms=305).number == 2
    with pytest.raises(IncarnationUnclear):
        taken(OLD, NEW, unclear, until_ms=640)


def test_without_a_time_it_is_the_newest() -> None:
    assert taken(OLD, NEW).number == 2


@pytest.mark.parametrize(("name", "number"), [("1", 1), ("2", 2), ("oldest", 1), ("newest", 2), ("aaaa", 1), (ID_B, 2)])
def test_one_is_named_by_number_by_age_or_by_how_its_id_begins(name: str, number: int) -> None:
    assert taken(OLD, NEW, named=name).number == number
    assert taken(OLD, NEW, named=name, until_ms=350).number == number


@pytest.mark.parametrize("name", ["3", "0", "ffff", "aaaa1111-old-and-more"])
def test_a_name_that_fits_none_is_refused_with_those_that_are_there(name: str) -> None:
    with pytest.raises(BadOption, match="matches 0 of 2") as refusal:
        taken(OLD, NEW, named=name)
    assert "orders=1" in refusal.value.hint


def test_what_a_restore_began_with_comes_before_everything() -> None:
    assert taken(OLD, NEW, named="newest", until_ms=9_999, topic_id=ID_A).number == 1


def test_ids_that_brokers_did_not_give_are_no_obstacle() -> None:
    nameless = known("", 1, oldest_ms=100, newest_ms=200, lived_from_ms=250)
    assert taken(nameless, NEW, until_ms=150).topic_id == ""
    assert taken(nameless, NEW, topic_id="").number == 1
    assert taken(nameless, NEW, named="1").number == 1


def test_notes_name_the_one_taken_and_how_to_take_the_others() -> None:
    first, second = incarnation_notes(choose_incarnations({"orders": (OLD, NEW)}, IncarnationCriteria()))
    assert first.startswith("orders was deleted and created again: this is incarnation 2 of 2")
    assert second.startswith("not used: incarnation 1 of 2 of orders (aaaa1111, 10 records, offsets 0 to 9, last seen")
    assert second.endswith("to use it: --incarnation orders=1")
