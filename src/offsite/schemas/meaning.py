"""Whether two registries mean the same by an id. Compared is what schemas say, not how they are written. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress

from offsite.model.schema_registry import PROTOBUF, RegistrySnapshot, StoredSchema
from offsite.schemas.proto_text import proto_meaning


def meaning_of(schema: StoredSchema) -> object:
    """What an id says, to compare: registries write the same JSON with other blanks and other orders of members, and
    the same Protobuf with other blanks and comments."""
    text: object = schema.text
    with suppress(ValueError, RecursionError):
        if schema.kind == PROTOBUF:
            text = proto_meaning(schema.text)
        else:
            text = json.dumps(json.loads(schema.text, parse_float=_number), sort_keys=True)  # in Python, 1 is True
    return schema.kind, text


def _number(text: str) -> float:
    number = float(text)
    return int(number) if number.is_integer() else number


def other_meanings(
    held: RegistrySnapshot, there: RegistrySnapshot, ids: Mapping[int, int] | None = None
) -> tuple[int, ...]:
    """The ids of `held`, in the default context, that `there` gives another meaning or none, rising. `ids`: those to
    compare, with the ids that they have there; None: all, under the same ids."""
    mine, theirs = _Meanings(held), _Meanings(there)

    def is_alike(schema: StoredSchema) -> bool:
        now = there.by_id.get(("", schema.id if ids is None else ids[schema.id]))
        return now is not None and mine.digest(schema) == theirs.digest(now)

    compared = (schema for schema in held.schemas if not schema.context and (ids is None or schema.id in ids))
    return tuple(schema.id for schema in compared if not is_alike(schema))


class _Meanings:
    """What schemas of `snapshot` say with all that they use, each looked at once. The subjects of what a schema uses,
    and their order, may be others elsewhere."""

    def __init__(self, snapshot: RegistrySnapshot) -> None:
        self._snapshot = snapshot
        self._digests: dict[tuple[str, int], bytes] = {}

    def digest(self, schema: StoredSchema) -> bytes:
        """Equal for two schemas that mean the same. Circles are cut where they are entered."""
        pending, opened = [schema], set[tuple[str, int]]()
        while pending:  # not by recursion: a chain of strangers may be long
            place = pending[-1].context, pending[-1].id
            if place in self._digests:
                pending.pop()
                continue
            used = self._used(pending[-1])
            open_ = [part for part in used if (part.context, part.id) not in self._digests]
            if place not in opened and open_:
                opened.add(place)
                pending += open_
                continue
            self._digests[place] = self._of(pending.pop(), used)
        return self._digests[schema.context, schema.id]

    def _used(self, schema: StoredSchema) -> list[StoredSchema]:
        versions = ((part.subject, part.version) for part in schema.references)
        return [self._snapshot.by_version[place] for place in versions if place in self._snapshot.by_version]

    def _of(self, schema: StoredSchema, used: list[StoredSchema]) -> bytes:
        parts = {self._digests.get((part.context, part.id), b"") for part in used}
        return hashlib.sha256(repr((meaning_of(schema), sorted(parts))).encode(errors="surrogatepass")).digest()
