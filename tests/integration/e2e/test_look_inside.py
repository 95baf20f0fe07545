"""`offsite cat` and `offsite search` as scripts use them, on a repository in a folder."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.stores.open_store import open_store
from tests.integration.e2e.command import OFFSITE, clean_environment, offsite, succeed
from tests.tables import ORDERS, ORDERS_1, batch_of, commit_batches, new_table


@pytest.fixture
def place(tmp_path: Path) -> list[str]:
    backup = new_table(open_store(str(tmp_path / "repository")))
    commit_batches(backup, {ORDERS: [batch_of(0, 2000)], ORDERS_1: [bytes(encode([Record(0, 5, 0, b"\xff", b"{}")]))]})
    return ["--repo", backup.store.url, "--backup", "b"]


def test_cat_shows_lines_documents_and_raw_values(place: list[str]) -> None:
    (record,) = succeed("cat", "orders/1", *place, "-o", "json")["records"]
    assert (record["key"], record["value"]["data"]) == (
        {"encoding": "base64", "data": "/w==", "schema_id": None, "schema": None},
        {},
    )
    lines = printed("cat", "orders/0", *place, "--from", "5", "--limit", "3", "-o", "jsonl").stdout.splitlines()
    assert [json.loads(line)["offset"] for line in lines] == [5, 6, 7]
    assert printed("cat", "orders/1", *place).stdout == "orders/1@0  1970-01-01T00:00:00.005Z  hex:ff  {}\n"
    assert printed("cat", "orders", *place, "--raw", "--limit", "2").stdout == "value\nvalue\n"
    assert succeed("cat", "orders", *place, "--from", "5000", "-o", "json") == {"records": []}


def test_a_reader_that_has_seen_enough_ends_it_as_any_other_command(place: list[str]) -> None:
    """As by SIGPIPE: without a word, and not as if all had been told."""
    done = printed("cat", "orders", *place, after="| head -1")
    assert (done.returncode, done.stderr) == (141, "")
    assert done.stdout.startswith("orders/0@0 ")


def test_search_finds_what_nobody_sees_on_its_command_line_and_says_when_there_is_more(
    place: list[str], tmp_path: Path
) -> None:
    (words := tmp_path / "words").write_text("value=val\n")
    found = printed("search", *place, "--match-file", str(words), "--limit", "2", "-o", "jsonl")
    assert [json.loads(line)["offset"] for line in found.stdout.splitlines()] == [0, 1]
    assert "more than 2 records" in found.stderr


def test_what_makes_no_sense_is_refused(place: list[str], tmp_path: Path) -> None:
    (words := tmp_path / "words").write_text("value=secret\nsecret\n")
    with_words = ["search", *place, "--match-file", str(words)]
    assert "secret" not in offsite(*with_words).error["message"]
    alone = ["search", *place, "--key-hex", "xy"]
    for arguments in (["search", *place], alone, with_words, ["cat", "orders/7", *place]):
        done = offsite(*arguments)
        assert (done.exit_code, done.error["id"]) == (2, "OFF-0202")


def printed(*arguments: str, after: str = "") -> subprocess.CompletedProcess[str]:
    """What the command prints without `-o json`, through a shell."""
    return subprocess.run(
        ["/bin/bash", "-c", f"set -o pipefail; {shlex.join([str(OFFSITE), *arguments])} {after}"],
        env=clean_environment(None),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
