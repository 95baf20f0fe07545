"""An entry of the ledger of a set: a decision on its generations by an instance."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

from offsite.model.bounds import MAX_PARTITIONS
from offsite.model.untrusted.json_codec import Count, Form, OptionalFirst, Spare, TimeMs, integer_within
from offsite.model.untrusted.json_object import JsonObject
from offsite.repository.json_form import Patterns, StoredForm, patterns_needed


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


def _place(document: JsonObject, name: str) -> str:
    try:
        urlsplit(place := document.text(name))
    except ValueError as error:  # `s3://[`
        raise document.wrong(name, "a folder or a URL") from error
    return place


@dataclass(frozen=True, slots=True, kw_only=True)
class Founding:
    """The terms that both instances of a set must agree on. `target`: `backup`, or the format of an archive. `place`:
    where the archives lie, empty for backups."""

    cluster_id: str
    include: Annotated[Patterns, patterns_needed("a list with a pattern of topics: a set without one is never founded")]
    exclude: Patterns
    internal: bool
    target: str
    place: Annotated[str, Form(_place)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationEntry:
    """An entry. `word`: random, belongs to the writing process. `at_ms`: the store's time. `partitions`: the number of
    partition numbers with a due message. `commit`: the newest commit of the generation's backup."""

    seq: Count
    previous: str
    kind: GenerationEntryKind
    instance: Instance
    word: str
    at_ms: TimeMs
    generation: Count = 0
    partitions: Annotated[int, integer_within(0, MAX_PARTITIONS)] = 0
    commit: Count = 0
    by: str = ""
    founding: Spare[OptionalFirst[Founding]] = None


GENERATION_ENTRY = StoredForm(GenerationEntry)
