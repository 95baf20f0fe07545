"""Parses keys of the tool's objects: partition, first offset, and tree. Pure.

Two connectors archive compacted topics in turn, each below a name of its own; some versions pad numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from offsite.archives.files import check_claims

__all__ = ["ArchiveObject", "parse_key"]

_KEY = re.compile(r"(?P<topic>[^/]+)/(?:(?P<tree>[^/]+)/)?(?P<partition>\d{1,10})/(?P<name>[^/]+)")
_OCF = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)-(?P<start>\d{1,19})\.avro")
_LINES = re.compile(r"index-(?P<start>\d{1,19})\.avro-messages")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveObject:
    """An object of the archive. `start`: offset of the first record, by the name. `tree`: connector of a compacted
    topic, else empty. `is_lines`: from versions before June 2019, Base64 text instead of a container file."""

    key: str
    topic: str
    tree: str
    partition: int
    start: int
    size_bytes: int = 0
    is_lines: bool = False


def parse_key(key: str, size_bytes: int = 0) -> ArchiveObject | None:
    """Parse `key`; None for a foreign key. Raises `DamagedArchive` for an impossible number."""
    match = _KEY.fullmatch(key)
    if match is None:
        return None
    lines = _LINES.fullmatch(match["name"])
    container = _OCF.fullmatch(match["name"])
    if container and (container["topic"], int(container["partition"])) != (match["topic"], int(match["partition"])):
        return None
    named = lines or container
    if named is None:
        return None
    partition, start = int(match["partition"]), int(named["start"])
    check_claims(key, partition=partition, start=start)
    return ArchiveObject(
        key=key,
        topic=match["topic"],
        tree=match["tree"] or "",
        partition=partition,
        start=start,
        size_bytes=size_bytes,
        is_lines=lines is not None,
    )
