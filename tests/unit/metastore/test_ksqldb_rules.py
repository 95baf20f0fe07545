"""ksqlDB's rules, one test for each: where it is right we do the same, where it is not we do better.

The numbers are those of the notes on ksqlDB as it was built: K2 names, K3 lines, K4 writes, K5 the comparison.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given

from offsite.log.records.record import CREATE_TIME, Record
from offsite.metastore.backup_file import BackupFile, load, sidecar_of
from offsite.metastore.comparison import CommandComparison, CommandMatch
from offsite.metastore.folder import BackupName, NameForm, backups_of, parse_name, topic_of_service
from offsite.metastore.reading import read_backup
from offsite.metastore.restore_plan import why_incompatible
from tests.unit.metastore import ksqldb
from tests.unit.metastore.commands import HEADER, command, commands
from tests.unit.metastore.test_backup_file import described

NULL = Record(5, 1, CREATE_TIME, b'"stream/`S1`/drop"', None)
COLON = Record(6, 1, CREATE_TIME, b'"stream/`a:b`/create"', b'{"statement":"x"}')


def file_of(folder: Path, records: list[Record], form: NameForm = NameForm.KSQLDB) -> Path:
    name = BackupName(topic=HEADER.topic, made_ms=1_700_000_000_000, form=form)
    with BackupFile.create(folder, name, HEADER) as file:
        file.append(records)
    return file.path


def test_k2_ksqldb_takes_up_our_file_and_we_take_up_its(tmp_path: Path) -> None:
    path = file_of(tmp_path, [command(1)])
    names = [each.name for each in tmp_path.iterdir()]
    assert ksqldb.latest_file(names, HEADER.topic) == path.name
    sidecar_of(path).unlink()
    assert [str(each) for each in backups_of(HEADER.topic, [path.name, f"{path.name}.dirty"])] == [path.name]


def test_k2_a_service_with_upper_case_letters_finds_its_file_here_alone() -> None:
    topic = topic_of_service("PROD")
    names = [f"backup_{topic}_1700000000000"]
    assert ksqldb.latest_file(names, topic) is None
    assert [str(each) for each in backups_of(topic, names)] == names


def test_k3_lines_are_the_bytes_of_the_topic(tmp_path: Path) -> None:
    path = file_of(tmp_path, [command(1), command(2)])
    pairs = [(each.key or b"", each.value or b"") for each in (command(1), command(2))]
    assert path.read_bytes() == b"".join(ksqldb.write_record(*pair) for pair in pairs)
    assert ksqldb.read_records(path.read_bytes()) == pairs


def test_k3_a_colon_in_a_key_survives_the_reader_that_cuts_at_the_first(tmp_path: Path) -> None:
    cut = ksqldb.read_records(ksqldb.write_record(COLON.key or b"", COLON.value or b""))
    assert cut == [(b'"stream/`a', b'b`/create":{"statement":"x"}')], "as ksqlDB reads what it writes"
    path = file_of(tmp_path, [COLON])
    ((key, value),) = ksqldb.read_records(path.read_bytes())
    assert (json.loads(key), value) == ("stream/`a:b`/create", COLON.value)
    assert [each.record for each in load(path).commands] == [COLON]


def test_k4_a_null_value_breaks_no_file_and_is_kept(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Expecting value"):
        ksqldb.check_commands(ksqldb.read_records(b'"stream/`S1`/drop":\n'))
    path = file_of(tmp_path, [command(1), NULL, command(2)])
    ksqldb.check_commands(ksqldb.read_records(path.read_bytes()))
    assert [each.record for each in load(path).commands] == [command(1), NULL, command(2)]


def test_k5_a_null_in_the_topic_is_no_corruption_here() -> None:
    lines, entries = described([command(1), NULL, command(2)])
    stored = ksqldb.read_records(lines)
    topic = [(each.key or b"", each.value) for each in (command(1), NULL, command(2))]
    assert ksqldb.is_corrupt(stored, topic)
    comparison = CommandComparison(read_backup(lines, entries).commands)
    assert [comparison.take(each) for each in (command(1), NULL, command(2))] == [CommandMatch.KNOWN] * 3
    of_ksqldb = CommandComparison(read_backup(lines, None).commands)
    assert CommandMatch.DIFFERENT not in [of_ksqldb.take(each) for each in (command(1), NULL, command(2))]


def test_k5_an_emptied_topic_is_seen_before_the_next_command() -> None:
    lines, entries = described([command(1)])
    assert not ksqldb.is_corrupt(ksqldb.read_records(lines), [])
    assert CommandComparison(read_backup(lines, entries).commands).missing == 1


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (b'"stream/`S`/create"', b'{"statement":"x","version":18}', ""),
        (b'"stream/`S`/create"', b'{"statement":"x"}', ""),
        (b'"type/`T`/create"', b'{"statement":"x","version":null}', ""),
        (b'"stream/`S`/create"', b'{"statement":"x","version":19}', "version 19"),
        (b'"stream/`S`/create"', b'{"statement":"x","version":"' + b"v" * 9999 + b'"}', "not a version number"),
        (b'"stream/`S`/create"', b'{"statement":"x","version":' + b"9" * 4000 + b"}", "not a version number"),
        (b'"stream/`S`/create"', b'{"plan":{}}', "not a command"),
        (b'"stream/`S`/create"', None, "no value"),
        (None, b'{"statement":"x"}', "no key"),
        (b'"else/`S`/create"', b'{"statement":"x"}', "TYPE/ENTITY/ACTION"),
        (b"plain", b'{"statement":"x"}', "TYPE/ENTITY/ACTION"),
    ],
)
def test_k8_what_a_restore_of_ksqldb_would_not_take(key: bytes | None, value: bytes | None, why: str) -> None:
    found = why_incompatible(Record(0, 0, CREATE_TIME, key, value))
    assert why in found
    assert bool(found) is bool(why)


@given(commands())
def test_whatever_the_topic_holds_ksqldb_reads_every_line(given_commands: list[Record]) -> None:
    lines, entries = described(given_commands)
    read = ksqldb.read_records(lines)
    shown = [each for each in read_backup(lines, entries).commands if each.line]
    assert len(read) == len(shown)
    for pair, each in zip(read, shown, strict=True):
        for theirs, ours in zip(pair, (each.record.key, each.record.value), strict=True):
            assert theirs == ours or json.loads(theirs) == json.loads(ours or b"")


def test_its_own_files_in_progress_are_no_backups() -> None:
    assert [parse_name(f"backup_t_17{suffix}") for suffix in (".tmp", ".dirty")] == [None, None]
