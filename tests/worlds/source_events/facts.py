"""What the machine of a simulated store remembers, beside the store in memory: no seed knows what another one did, a
copy of a store has a memory of its own, and nothing is written to the home of whoever plays."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from offsite.model.errors import DamagedObject
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository import local_memory
from offsite.repository.backup import Backup
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.repository.local_memory import RememberedFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsInMemory(RememberedFacts):
    facts: dict[str, bytes]

    def get(self, fact: str) -> JsonObject | None:
        data = self.facts.get(fact)
        return None if data is None else parse_json_object(data, source=fact, damaged=DamagedObject)

    def put(self, fact: str, fields: dict[str, JsonValue]) -> None:
        self.facts[fact] = encode_object({"format": FORMAT, **fields})

    def drop(self, is_dropped: Callable[[str], bool]) -> None:
        for fact in [*filter(is_dropped, self.facts)]:
            del self.facts[fact]


def facts_in_memory() -> AbstractContextManager[Any]:
    """Until the end of the block, a machine remembers beside the `MemoryStore` which commits let something go."""
    return mock.patch.object(local_memory, "facts_of", _facts_of)


def _facts_of(backup: Backup, kind: str) -> RememberedFacts:
    facts: dict[str, bytes] = backup.store.facts  # type: ignore[attr-defined]
    return FactsInMemory(kind=kind, place=backup.store.url, name=backup.descriptor.name, facts=facts)
