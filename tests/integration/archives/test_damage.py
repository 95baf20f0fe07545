"""Damaged archives: said by file and byte, refused as a whole, and the undamaged rest taken only when asked for."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from offsite.archives.formats import WriteOptions
from offsite.model.errors import DamagedArchive
from offsite.overview.contents import show_backup
from offsite.overview.status import read_status
from offsite.upkeep.verification.run import verify_deep
from tests.batches import make_log
from tests.inline_runner import InlineRunner
from tests.integration.archives.exchange import ALL_FORMATS, Exchange, NewSegment, group

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut in the middle": lambda data: data[: len(data) // 2],
    "one byte": lambda _: b"x",
    "empty": lambda _: b"",
    "noise": lambda data: b"\xa5" * len(data),
    "a wrong beginning": lambda data: b"XXXX" + data[4:],
}
SUFFIXES = {
    "avro": "*.data",
    "kafka-backup": "*_records",
    "osodevops": "*.bin*",
    "parquet": "*.parquet",
    "jsonl": "*.jsonl",
}


CASES = [
    (name, damage)
    for name in ALL_FORMATS
    for damage in DAMAGES
    if (name, damage) != ("kafka-backup", "empty")  # its writer leaves empty files when it crashes
]


@pytest.mark.parametrize(("format_name", "damage"), CASES)
def test_a_damaged_file_is_named_and_the_rest_is_taken_when_asked_for(
    exchange: Exchange, format_name: str, damage: str
) -> None:
    for number in (0, 1):
        exchange.commit(NewSegment(partition=number, start=0, end=100, batches=[make_log(0, 100)]))
    exchange.export(format_name, "a")
    file = min(Path(exchange.place("a")).rglob(SUFFIXES[format_name]), key=str)
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    with pytest.raises(DamagedArchive, match=rf"{re.escape(file.name)} at byte \d+: "):
        exchange.bring_in(format_name, "a", "back")
    assert exchange.repository.backups() == ("original",)
    rest = exchange.bring_in(format_name, "a", "back", skip_damaged=True)
    assert {Path(each.file).name for each in rest.damaged} == {file.name}
    original, back = exchange.content("original"), exchange.content("back")
    assert back["orders", 1] == original["orders", 1]
    kept = set(back.get(("orders", 0), ()))
    assert kept <= set(original["orders", 0]), "nothing is made up"
    assert _named_as_damaged(exchange) >= set(range(_end(exchange))) - {record[0] for record in kept}


@pytest.mark.parametrize("format_name", [name for name in ALL_FORMATS if name != "kafka-backup"])
def test_a_file_that_is_gone_is_missed(exchange: Exchange, format_name: str) -> None:
    for start in (0, 100):
        exchange.commit(NewSegment(partition=0, start=start, end=start + 100, batches=[make_log(start, start + 100)]))
        exchange.export(format_name, "a")
    file = min(Path(exchange.place("a")).rglob(SUFFIXES[format_name]), key=str)
    file.unlink()
    with pytest.raises(DamagedArchive, match=re.escape(file.name)):
        exchange.bring_in(format_name, "a", "back")


@pytest.mark.parametrize("damage", ["one byte", "cut in the middle", "noise"])
@pytest.mark.parametrize("format_name", ALL_FORMATS)
def test_a_damaged_index_is_named_or_does_no_harm(exchange: Exchange, format_name: str, damage: str) -> None:
    for number in (0, 1):
        exchange.commit(
            NewSegment(partition=number, start=0, end=100, batches=[make_log(0, 100)]), groups=group("g", (0, 7))
        )
    exchange.export(format_name, "a")
    folder = Path(exchange.place("a"))
    indexes = sorted({each for each in folder.rglob("*") if each.is_file()} - set(folder.rglob(SUFFIXES[format_name])))
    assert indexes
    for number, index in enumerate(indexes):
        whole = index.read_bytes()
        index.write_bytes(DAMAGES[damage](whole))
        try:
            exchange.bring_in(format_name, "a", f"back-{number}")
        except DamagedArchive as refused:
            named = index.name in refused.message
        else:
            named = exchange.content(f"back-{number}") == exchange.content("original")
        assert named, index
        index.write_bytes(whole)


def _end(exchange: Exchange) -> int:
    """How far the damaged partition was brought in; what lies behind it a later import may still bring."""
    state = exchange.repository.backup("back").state()
    return next((known.end for key, known in state.positions.items() if key.partition == 0), 0)


def _named_as_damaged(exchange: Exchange) -> set[int]:
    holes = exchange.repository.backup("back").state().holes
    lost = (hole for hole in holes if hole.partition_id.partition == 0 and hole.reason == "damage")
    return {offset for hole in lost for offset in range(hole.start, hole.end)}


LOSSES: dict[str, Callable[[bytes], bytes] | None] = {
    "gone": None,
    "cut": lambda data: data[: len(data) * 2 // 3],
    "one bit": lambda data: data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 4]) + data[len(data) // 2 + 1 :],
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("number", [0, 1, 3], ids=["first", "middle", "last"])
@pytest.mark.parametrize("format_name", [name for name in ALL_FORMATS if name != "kafka-backup"])
def test_what_damage_took_is_a_hole_wherever_it_lies(
    exchange: Exchange, format_name: str, number: int, loss: str
) -> None:
    _export_four_files(exchange, format_name)
    files = sorted(Path(exchange.place("a")).rglob(SUFFIXES[format_name]))
    _lose(files[number], LOSSES[loss])
    brought = exchange.bring_in(format_name, "a", "back", skip_damaged=True)
    kept, lost = {record[0] for record in exchange.content("back")["orders", 0]}, _named_as_damaged(exchange)
    assert kept | lost == set(range(400)) - COMPACTED
    assert not kept & lost
    assert lost <= set(range(100 * number, 100 * number + 100)), "what is only compacted is no hole"
    assert not brought.complete
    _assert_told_as_lost(exchange, lost)
    assert exchange.bring_in(format_name, "a", "back", skip_damaged=True).commit == brought.commit
    _assert_told_as_lost(exchange, lost)


@pytest.mark.parametrize("loss", ["gone", "a wrong beginning", "cut"])
def test_a_kafka_backup_segment_that_is_lost_between_others_is_a_hole(exchange: Exchange, loss: str) -> None:
    _export_four_files(exchange, "kafka-backup", options=WriteOptions(segment_bytes=1))
    files = sorted(Path(exchange.place("a")).rglob(SUFFIXES["kafka-backup"]))
    assert len([file for file in files if "partition_000" in file.name]) > 3
    _lose(files[1], (LOSSES | DAMAGES)[loss])
    exchange.bring_in("kafka-backup", "a", "back", skip_damaged=True)
    kept, lost = {record[0] for record in exchange.content("back")["orders", 0]}, _named_as_damaged(exchange)
    assert kept | lost >= set(range(400)) - COMPACTED
    assert not kept & lost
    _assert_told_as_lost(exchange, lost)


def test_a_segment_without_a_manifest_whose_first_bytes_are_gone_is_a_hole(exchange: Exchange) -> None:
    _export_four_files(exchange, "osodevops")
    files = sorted(Path(exchange.place("a")).rglob(SUFFIXES["osodevops"]))
    _lose(files[1], DAMAGES["a wrong beginning"])
    _lose(Path(exchange.place("a")) / "manifest.json", DAMAGES["noise"])
    exchange.bring_in("osodevops", "a", "back", skip_damaged=True)
    kept, lost = {record[0] for record in exchange.content("back")["orders", 0]}, _named_as_damaged(exchange)
    assert kept == set(range(400)) - COMPACTED - lost
    assert lost == set(range(100, 200))


COMPACTED = set(range(240, 250))
"""Offsets in the third file that the source had compacted away."""


def _export_four_files(exchange: Exchange, format_name: str, options: WriteOptions | None = None) -> None:
    for start in range(0, 400, 100):
        batches = [make_log(start, start + 40), make_log(start + (50 if start == 200 else 40), start + 100)]
        exchange.commit(NewSegment(partition=0, start=start, end=start + 100, batches=batches))
        exchange.export(format_name, "a", options=options)


def _lose(file: Path, damage: Callable[[bytes], bytes] | None) -> None:
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage(file.read_bytes()))


def _assert_told_as_lost(exchange: Exchange, lost: set[int]) -> None:
    """By status, and by what a restore would bring."""
    (status,) = (each for each in read_status(exchange.repository).backups if each.backup == "back")
    assert lost
    assert not status.safe
    assert any(" hole" in problem for problem in status.problems)
    assert verify_deep(exchange.repository.backup("back"), InlineRunner()).ok
    shown = show_backup(exchange.repository.backup("back")).holes
    assert {offset for hole in shown for offset in range(hole.start, hole.end)} == lost
