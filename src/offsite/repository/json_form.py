"""The byte form of a repository's JSON objects: canonical, each with its own digest, and the reader.

Objects of earlier versions have no digest; only an object that names their hash vouches for them. Old objects contain
only members known to their versions. So a newer object is not taken for an old one after a flipped bit in its digest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Generic, TypeVar

from offsite.model.errors import DamagedObject, FormatTooNew, OffsiteError
from offsite.model.selection import is_readable
from offsite.model.untrusted.bounded_json import STRICT, BadJson, DigestState, check_digest, decode_object, with_digest
from offsite.model.untrusted.json_codec import First, Form, JsonCodec
from offsite.model.untrusted.json_object import JsonObject, JsonValue

T = TypeVar("T")

FORMAT = 1
"""The major format version of JSON objects of a repository. Added keys do not change the version: readers ignore
unknown keys."""

FORMAT_PACKS = 2
"""The format of a commit or catalog with packed segments or a truncated log. A reader of format 1 would look for packed
segments in the wrong place, and mix the histories of a truncated log."""

FORMAT_RETENTION = 3
"""The format of a commit or catalog with expired or compacted ranges, or with pins. A reader of format 2 would report
missing data as a hole, and drop pinned points."""

FORMAT_REGISTRY = 4
"""The format of a commit or catalog with a schema registry. A writer of format 3 would store states without it, and the
schemas would be missing from the commits after that."""

NEWEST_FORMAT = FORMAT_REGISTRY

_MEMBERS_BEFORE_DIGESTS = frozenset(
    {
        "accounted",
        "acls",
        "backup",
        "before_hash",
        "by",
        "bytes",
        "change",
        "checkpoint",
        "cluster_id",
        "commit",
        "committed_at_ms",
        "created",
        "created_at_ms",
        "created_by",
        "exclude",
        "fidelity",
        "findings",
        "forgotten",
        "format",
        "gaps",
        "groups",
        "history",
        "holder",
        "holes",
        "include",
        "incarnations",
        "internal",
        "isolation",
        "left_behind",
        "makings",
        "metadata",
        "name",
        "offsets",
        "options",
        "partitions",
        "positions",
        "preserved",
        "previous",
        "producer_id",
        "quotas",
        "raw_bytes",
        "records",
        "removed",
        "repartitioned",
        "repository_id",
        "request",
        "restore",
        "scram_users",
        "segments",
        "seq",
        "settings",
        "since_ms",
        "starts",
        "stored_bytes",
        "term",
        "topic_ids",
        "topics",
        "until_ms",
        "verified",
        "word",
        "writer",
    }
)


def encode_canonical(value: Mapping[str, JsonValue]) -> bytes:
    """The canonical bytes of `value` inside an object with its own integrity check: sorted keys, no spaces, ASCII, a
    newline at the end."""
    return (json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False) + "\n").encode("ascii")


def encode_object(value: Mapping[str, JsonValue]) -> bytes:
    """The canonical bytes of an object: as `encode_canonical`, with the digest as the last member."""
    return with_digest(encode_canonical(value))


def parse_json_object(
    data: bytes, *, source: str, damaged: Callable[[str], OffsiteError], newest: int = FORMAT
) -> JsonObject:
    """Read one versioned JSON object, written by `encode_object` or an earlier version, up to format `newest`. Raises
    the error made by `damaged`, or `FormatTooNew`."""
    state = check_digest(data)
    if state is DigestState.WRONG:
        raise damaged(f"{source}: its bytes do not match its digest")
    parsed = parse_part(data, source=source, damaged=damaged, newest=newest)
    if state is DigestState.ABSENT and (unknown := set(parsed.fields) - _MEMBERS_BEFORE_DIGESTS):
        raise damaged(f"{source}: it has no digest, but a member {min(unknown)!r} that only objects with a digest have")
    return parsed


def parse_part(data: bytes, *, source: str, damaged: Callable[[str], OffsiteError], newest: int = FORMAT) -> JsonObject:
    """Read the output of `encode_canonical`, up to format `newest`; `source` names the surrounding object. Raises the
    error made by `damaged`, or `FormatTooNew`."""
    try:
        fields = decode_object(data, decoder=STRICT)
    except BadJson as error:
        raise damaged(f"{source}: {error}") from error
    parsed = JsonObject(fields=fields, damaged=lambda problem: damaged(f"{source}: {problem}"))
    if (written := parsed.integer("format")) > newest:
        raise FormatTooNew(
            f"{source} has format {written}; this offsite reads up to {newest}",
            hint="upgrade offsite and try again",
        )
    return parsed


class StoredForm(Generic[T]):
    """The stored form of the dataclass `kind`: one object of format 1 with the members that `JsonCodec` declares.
    `damaged` makes the error for bytes that do not hold such an object."""

    def __init__(self, kind: type[T], *, damaged: Callable[[str], OffsiteError] = DamagedObject) -> None:
        self.codec, self._damaged = JsonCodec(kind), damaged

    def encode(self, value: T) -> bytes:
        return encode_object({"format": FORMAT, **self.codec.write(value)})

    def decode(self, data: bytes, key: str) -> T:
        """Decode the object `data`, stored at `key`. Raises the error made by `damaged`, or `FormatTooNew`."""
        return self.codec.read(parse_json_object(data, source=key, damaged=self._damaged))


def patterns_of(document: JsonObject, name: str) -> tuple[str, ...]:
    """Topic patterns, all readable."""
    if not all(map(is_readable, patterns := document.texts(name))):
        raise document.wrong(name, "a list of patterns of topics that can be read")
    return patterns


def patterns_needed(expected: str) -> First:
    """At least one pattern, which is checked before any field is read. `expected` says what an empty list is not."""

    def check(document: JsonObject, name: str) -> None:
        if not document.texts(name):
            raise document.wrong(name, expected)

    return First(check)


Patterns = Annotated[tuple[str, ...], Form(patterns_of, list)]
