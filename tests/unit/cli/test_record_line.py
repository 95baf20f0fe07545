from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from offsite.cli.app import app
from offsite.cli.commands.records import record_line
from offsite.model.errors import BadOption
from offsite.model.untrusted.text import printable
from offsite.schemas.shown_bytes import ShownBytes
from offsite.table.shown_record import ShownHeader, ShownRecord

RECORD = ShownRecord(
    topic="orders",
    partition=3,
    offset=17,
    timestamp_ms=1_700_000_000_000,
    timestamp_type="CreateTime",
    key=ShownBytes(encoding="text", data="k\x1b[31m"),
    value=ShownBytes(encoding="json", data={"a": "é\n\u202e"}),
    headers=(
        ShownHeader(name="h\r", value=None),
        ShownHeader(name="b", value=ShownBytes(encoding="base64", data="AP8=")),
        ShownHeader(name="p", value=ShownBytes(encoding="base64", data="AAAAAAVh", schema_id=5)),
    ),
)


@pytest.mark.parametrize("given", ["key-hex=5ecre7", "key=5ecre7\nkey=5ecre7", "nothing 5ecre7"])
def test_no_word_of_a_match_file_is_told_or_logged(tmp_path: Path, given: str) -> None:
    words, log = tmp_path / "words", tmp_path / "log"
    words.write_text(given)
    command = ["search", "--repo", str(tmp_path), "--backup", "b", "--match-file", str(words), "--log-file", str(log)]
    done = CliRunner().invoke(app, command)
    assert isinstance(done.exception, BadOption)
    assert "5ecre7" not in f"{done.output} {done.exception} {log.read_text()}"


def test_a_record_is_one_line_that_a_terminal_can_bear() -> None:
    assert record_line(RECORD) == (
        "orders/3@17  2023-11-14T22:13:20.000Z  k\\x1b[31m  "
        '{"a": "é\\n\\u202e"}  h\\r=NULL  b=hex:00ff  p=schema 5?:hex:000000000561'
    )


@pytest.mark.parametrize(
    ("time_ms", "shown"),
    [
        (-1, "-"),
        (-5_000, "1969-12-31T23:59:55.000Z"),
        ((1 << 63) - 1, "9223372036854775807 ms"),
        (-(1 << 62), "-4611686018427387904 ms"),
    ],
)
def test_a_time_that_no_calendar_holds_is_shown_as_it_is(time_ms: int, shown: str) -> None:
    assert record_line(replace(RECORD, timestamp_ms=time_ms)).split("  ")[1] == shown


@pytest.mark.parametrize("text", ["\x00", "\x07", "\x9b", "\u2028", "\u200e", "\ud800", "\x7f"])
def test_what_cannot_be_printed_is_escaped(text: str) -> None:
    assert printable(f"a{text}b").isprintable()
    assert printable(f"a{text}b").encode()
