"""Whether two registries mean the same by an id. Compared is what schemas say, not how they are written. Pure."""

from __future__ import annotations

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
    return tuple(
        schema.id
        for schema in held.schemas
        if not schema.context
        and (ids is None or schema.id in ids)
        and not _is_alike(held, schema, there, schema.id if ids is None else ids[schema.id])
    )


def _is_alike(held: RegistrySnapshot, schema: StoredSchema, there: RegistrySnapshot, schema_id: int) -> bool:
    now = there.by_id.get(("", schema_id))
    return now is not None and _whole(held, schema) == _whole(there, now)


def _whole(snapshot: RegistrySnapshot, schema: StoredSchema) -> list[object]:
    """What a schema says with all that it uses. The subjects of what it uses may have other names elsewhere."""
    return [meaning_of(used) for used in snapshot.with_references(schema)]
