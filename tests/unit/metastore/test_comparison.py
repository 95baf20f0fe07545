from __future__ import annotations

from offsite.log.records.record import CREATE_TIME, Record
from offsite.metastore.comparison import CommandComparison, CommandMatch
from offsite.metastore.reading import Command, read_backup
from tests.unit.metastore.commands import command

NULL = Record(9, 1, CREATE_TIME, b'"a"', None)


def stored(*numbers: int) -> list[Command]:
    return [Command(place, place, command(number)) for place, number in enumerate(numbers, 1)]


def test_commands_are_compared_in_order_whatever_their_offsets_and_times() -> None:
    comparison = CommandComparison(stored(1, 2))
    again = command(1, offset=100)._replace(timestamp_ms=5, headers=(("a", b"b"),))
    assert [comparison.take(each) for each in (again, command(2), command(3))] == [
        CommandMatch.KNOWN,
        CommandMatch.KNOWN,
        CommandMatch.NEW,
    ]
    assert comparison.missing == 0


def test_the_first_difference_is_named_by_line_and_offset() -> None:
    comparison = CommandComparison(stored(1, 2, 3))
    assert [comparison.take(each) for each in (command(1), command(9))] == [CommandMatch.KNOWN, CommandMatch.DIFFERENT]
    assert str(comparison.difference) == "line 2 of the file differs from command 2 of the topic (offset 18)"


def test_what_the_topic_has_not_shown_is_counted() -> None:
    comparison = CommandComparison(stored(1, 2, 3))
    assert comparison.take(command(1)) is CommandMatch.KNOWN
    assert comparison.missing == 2


def test_a_line_of_ksqldb_with_a_colon_in_its_key_says_the_same() -> None:
    odd = Record(0, 1, CREATE_TIME, b'"stream/`a:b`/create"', b'{"statement":"x"}')
    read = read_backup(b'"stream/`a:b`/create":{"statement":"x"}\n', None)
    assert CommandComparison(read.commands, by_bytes=False).take(odd) is CommandMatch.UNDESCRIBED
    assert CommandComparison(read.commands).take(odd) is CommandMatch.DIFFERENT, (
        "its entry would be that of another line"
    )
    assert CommandComparison(read.commands, by_bytes=False).take(command(1)) is CommandMatch.DIFFERENT


def test_a_file_without_entries_is_compared_by_its_lines_and_cannot_hold_what_has_none() -> None:
    line = (command(1).key or b"") + b":" + (command(1).value or b"")
    comparison = CommandComparison([Command(1, 1, command(1, offset=0), described=False, text=line)])
    taken = [comparison.take(each) for each in (NULL, command(1), NULL)]
    assert taken == [CommandMatch.UNDESCRIBED, CommandMatch.UNDESCRIBED, CommandMatch.NEW]
