"""An entry of the ledger of a set: a decision on its generations by an instance."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

from offsite.model.bounds import MAX_COMMIT_TIME_MS, MAX_PARTITIONS
from offsite.model.errors import DamagedObject
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object, patterns_of


class Instance(StrEnum):
    """The two instances of a configuration."""

    A = "a"
    B = "b"

    @property
    def other(self) -> Instance:
        return Instance.B if self is Instance.A else Instance.A


class GenerationEntryKind(StrEnum):
    """The decision of an entry. An entry is a single object, so a decision is complete or absent."""

    FOUNDED = "founded"
    """The set is made, with the contents and target of both instances."""
    JOINED = "joined"
    """A process runs the instance from now on: its predecessor decides and writes nothing more."""
    BEGUN = "begun"
    """The instance begins a generation at the beginning of the topics."""
    COMPLETED = "completed"
    """The first generation has reached the end of the topics."""
    ASKED = "asked"
    """The active generation is old enough: the other instance may begin the next one."""
    SWITCHED = "switched"
    """The next generation has reached the end of the topics: it is active from now on, and complete."""
    SEALED = "sealed"
    """Nothing can be added any more to the previously active generation."""
    RELEASED = "released"
    """A person has agreed to lose records that only this generation holds."""
    REMOVING = "removing"
    """The generation is being removed: nobody may begin to read it."""
    REMOVED = "removed"
    """Nothing of the generation is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Founding:
    """The terms that both instances of a set must agree on. `target`: `backup`, or the format of an archive. `place`:
    where the archives lie, empty for backups."""

    cluster_id: str
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    internal: bool
    target: str
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationEntry:
    """An entry. `word`: random, belongs to the writing process. `at_ms`: the store's time. `partitions`: the number of
    partition numbers with a due message. `commit`: the newest commit of the generation's backup."""

    seq: int
    previous: str
    kind: GenerationEntryKind
    instance: Instance
    word: str
    at_ms: int
    generation: int = 0
    partitions: int = 0
    commit: int = 0
    by: str = ""
    founding: Founding | None = None


def encode_entry(entry: GenerationEntry) -> bytes:
    fields: dict[str, JsonValue] = {
        "format": FORMAT,
        "seq": entry.seq,
        "previous": entry.previous,
        "kind": entry.kind.value,
        "instance": entry.instance.value,
        "word": entry.word,
        "at_ms": entry.at_ms,
        "generation": entry.generation,
        "partitions": entry.partitions,
        "commit": entry.commit,
        "by": entry.by,
    }
    if entry.founding is not None:
        fields["founding"] = _founding_fields(entry.founding)
    return encode_object(fields)


def decode_entry(data: bytes, key: str) -> GenerationEntry:
    """Decode the entry in `data`, stored at `key`. Raises `DamagedObject`, `FormatTooNew`."""
    document = parse_json_object(data, source=key, damaged=DamagedObject)
    founding = document.optional_child("founding")
    return GenerationEntry(
        seq=document.count("seq"),
        previous=document.text("previous"),
        kind=document.member("kind", GenerationEntryKind),
        instance=document.member("instance", Instance),
        word=document.text("word"),
        at_ms=document.integer("at_ms", least=0, most=MAX_COMMIT_TIME_MS),
        generation=document.count("generation"),
        partitions=document.integer("partitions", least=0, most=MAX_PARTITIONS),
        commit=document.count("commit"),
        by=document.text("by"),
        founding=None if founding is None else _founding(founding),
    )


def entry_hash(data: bytes) -> str:
    """The `previous` of the next entry: SHA-256 of the stored bytes, hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def _founding_fields(founding: Founding) -> Mapping[str, JsonValue]:
    return {
        "cluster_id": founding.cluster_id,
        "include": list(founding.include),
        "exclude": list(founding.exclude),
        "internal": founding.internal,
        "target": founding.target,
        "place": founding.place,
    }


def _founding(document: JsonObject) -> Founding:
    if not document.texts("include"):
        raise document.wrong("include", "a list with a pattern of topics: a set without one is never founded")
    return Founding(
        cluster_id=document.text("cluster_id"),
        include=patterns_of(document, "include"),
        exclude=patterns_of(document, "exclude"),
        internal=document.flag("internal"),
        target=document.text("target"),
        place=_place(document),
    )


def _place(document: JsonObject) -> str:
    try:
        urlsplit(place := document.text("place"))
    except ValueError as error:  # `s3://[`
        raise document.wrong("place", "a folder or a URL") from error
    return place
