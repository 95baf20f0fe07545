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
class CatalogSeal:
    """Hashes of the partition table and of the history's tail, and the parts, each kind in order."""

    partitions: str
    tail: str
    segments: tuple[PartRef, ...]
    history: tuple[HistoryRef, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstFormSeal:
    """The seal of a catalog without parts, as written by earlier versions."""

    segments: str
    history: str


def encode_seal(seal: CatalogSeal) -> bytes:
    return encode_object(
        {
            "format": FORMAT,
            "partitions": seal.partitions,
            "tail": seal.tail,
            "segments": [_ref_to_json(part) for part in seal.segments],
            "history": [
                {**_ref_to_json(chunk.ref), "first": list(chunk.first), "last": list(chunk.last)}
                for chunk in seal.history
            ],
        }
    )


def decode_seal(data: bytes, *, key: str, layout: BackupLayout) -> CatalogSeal | FirstFormSeal:
    """Read the seal `key`. Raises `DamagedObject`, `FormatTooNew`."""
    document = parse_json_object(data, source=key, damaged=damaged_catalog)
    if isinstance(document.fields.get("segments"), str):
        return FirstFormSeal(segments=document.text("segments"), history=document.text("history"))
    return CatalogSeal(
        partitions=document.text("partitions"),
        tail=document.text("tail"),
        segments=tuple(_ref(part, layout) for part in document.children("segments")),
        history=tuple(_chunk(chunk, layout) for chunk in document.children("history")),
    )


def _ref_to_json(ref: PartRef) -> dict[str, JsonValue]:
    return {"key": ref.key, "hash": ref.hash, "rows": ref.rows}


def _ref(document: JsonObject, layout: BackupLayout) -> PartRef:
    ref = PartRef(key=document.text("key"), hash=document.text("hash"), rows=document.count("rows"))
    if not layout.is_part(ref.key) or not ref.rows:
        raise document.wrong("key", "that of a part with rows of this backup")
    return ref


def _chunk(document: JsonObject, layout: BackupLayout) -> HistoryRef:
    """The number of lines is bounded here, because a list of the lines is allocated before they are read."""
    history_ref = HistoryRef(ref=_ref(document, layout), first=_pair(document, "first"), last=_pair(document, "last"))
    if not history_ref.ref.rows <= min(LINES_PER_CHUNK, history_ref.last[0] - history_ref.first[0] + 1):
        raise document.wrong("rows", "a number of lines that its commits have")
    return history_ref


def _pair(document: JsonObject, name: str) -> tuple[int, int]:
    numbers = document.integers(name)
    if len(numbers) != 2:
        raise document.wrong(name, "a number and a time")
    return numbers[0], numbers[1]
