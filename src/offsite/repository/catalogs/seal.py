"""The seal of a catalog: the hashes of all its objects, its own and shared ones."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.catalogs.parquet_form import damaged_catalog
from offsite.repository.history import LINES_PER_CHUNK
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.repository.layout import BackupLayout
from offsite.repository.part_ref import PartRef


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRef:
    """A chunk of the history; `first` and `last`: number and time of its first and last commit."""

    ref: PartRef
    first: tuple[int, int]
    last: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """Hashes of the partition table and of the history's tail, and the parts, each kind in order."""

    partitions: str
    tail: str
    segments: tuple[PartRef, ...]
    history: tuple[HistoryRef, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstSeal:
    """The seal of a catalog without parts, as written by earlier versions."""

    segments: str
    history: str


def encode_seal(seal: Seal) -> bytes:
    return encode_object(
        {
            "format": FORMAT,
            "partitions": seal.partitions,
            "tail": seal.tail,
            "segments": [_ref_to_json(each) for each in seal.segments],
            "history": [
                {**_ref_to_json(each.ref), "first": list(each.first), "last": list(each.last)} for each in seal.history
            ],
        }
    )


def decode_seal(data: bytes, *, key: str, layout: BackupLayout) -> Seal | FirstSeal:
    """Read the seal `key`. Raises `DamagedObject`, `FormatTooNew`."""
    item = parse_json_object(data, source=key, damaged=damaged_catalog)
    if isinstance(item.fields.get("segments"), str):
        return FirstSeal(segments=item.text("segments"), history=item.text("history"))
    return Seal(
        partitions=item.text("partitions"),
        tail=item.text("tail"),
        segments=tuple(_ref(each, layout) for each in item.children("segments")),
        history=tuple(_chunk(each, layout) for each in item.children("history")),
    )


def _ref_to_json(ref: PartRef) -> dict[str, JsonValue]:
    return {"key": ref.key, "hash": ref.hash, "rows": ref.rows}


def _ref(item: JsonObject, layout: BackupLayout) -> PartRef:
    ref = PartRef(key=item.text("key"), hash=item.text("hash"), rows=item.count("rows"))
    if not layout.is_part(ref.key) or not ref.rows:
        raise item.wrong("key", "that of a part with rows of this backup")
    return ref


def _chunk(item: JsonObject, layout: BackupLayout) -> HistoryRef:
    """The number of lines is bounded here, because a list of the lines is allocated before they are read."""
    found = HistoryRef(ref=_ref(item, layout), first=_pair(item, "first"), last=_pair(item, "last"))
    if not found.ref.rows <= min(LINES_PER_CHUNK, found.last[0] - found.first[0] + 1):
        raise item.wrong("rows", "a number of lines that its commits have")
    return found


def _pair(item: JsonObject, name: str) -> tuple[int, int]:
    numbers = item.integers(name)
    if len(numbers) != 2:
        raise item.wrong(name, "a number and a time")
    return numbers[0], numbers[1]
