from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from offsite.model.untrusted.text import parse_properties


def as_pairs(text: str) -> list[tuple[str, str]]:
    return [(each.name, each.value) for each in parse_properties(text)]


def test_equals_colon_and_blank_separate_name_and_value() -> None:
    assert as_pairs("a=1\nb: 2\nc 3\nd\t=\t4\ne") == [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4"), ("e", "")]


def test_only_the_first_separator_counts() -> None:
    assert as_pairs("jaas = x = y : z") == [("jaas", "x = y : z")]


def test_comments_and_blank_lines_are_no_properties() -> None:
    assert as_pairs("# one\n  ! two\n\n \t\na=1 # not a comment") == [("a", "1 # not a comment")]


def test_a_line_goes_on_after_an_odd_number_of_backslashes() -> None:
    assert as_pairs("a=1,\\\n    2,\\\n    3\nb=x\\\\\nc=4") == [("a", "1,2,3"), ("b", "x\\"), ("c", "4")]


def test_a_comment_mark_in_a_continued_line_is_part_of_the_value() -> None:
    assert as_pairs("a=1\\\n#2") == [("a", "1#2")]


def test_escapes_are_undone_in_names_and_values() -> None:
    assert as_pairs(r"a\=b\ c = t\tu\u00e9\q\:") == [("a=b c", "t\tu\u00e9q:")]


def test_two_escapes_are_one_character_beyond_65536() -> None:
    """So Java's clients write it. A password of two halves could not be sent: the command ended in a traceback."""
    assert as_pairs(r"password=\ud83d\ude00") == [("password", "\U0001f600")]
    ((_, half),) = as_pairs(r"password=a\ud83d")
    assert half.encode()


def test_each_property_knows_the_line_it_begins_on() -> None:
    lines = [each.line for each in parse_properties("# c\na=1\\\n2\n\nb=3")]
    assert lines == [2, 5]


def test_windows_and_old_mac_line_ends_are_line_ends() -> None:
    assert as_pairs("a=1\r\nb=2\rc=3") == [("a", "1"), ("b", "2"), ("c", "3")]


def test_printing_a_property_does_not_show_its_value() -> None:
    (found,) = parse_properties("sasl.password=hunter2")
    assert "hunter2" not in repr(found)


@given(st.text())
def test_every_text_can_be_read(text: str) -> None:
    parse_properties(text)
