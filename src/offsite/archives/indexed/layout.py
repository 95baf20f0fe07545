"""File names of the archives indexed by offsite (Avro, Parquet, JSON lines). Pure.

    _archive.json                                                      the manifest: what is here
    <topics>/<topic>/_index.json                                       the topic's files, and what is known of them
    <topics>/<topic>/partition=<nr>/<topic>+<nr>-<start:020><suffix>   the records of a range that begins at `start`

Other tools number the files of a partition (`<topic>+<nr>-<number><suffix>`, any number of digits): such a name gives
the order, but no offset. Spark and other table readers ignore names with a leading `_`.

A file name holds at most 255 bytes on most systems, so file names cut topics to 180 characters; folder names keep the
whole topic.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from offsite.archives.files import check_claims
from offsite.model.errors import check
from offsite.model.names import check_topic_name, is_topic_name

MANIFEST_KEY = "_archive.json"
_INDEX = "_index.json"
_MAX_TOPIC_IN_FILE_NAME = 180
_NAME = re.compile(
    r"(?P<topic>[^/]+)/partition=(?P<partition>[0-9]{1,10})/(?P<cut>[^/+]+)\+(?P=partition)-(?P<number>[0-9]+)"
)
_DIGITS = 20
"""Digits of the number in names given by offsite; the number is an offset."""
_COLUMN = r"(?:(?!topic=|partition=)[^/_.=][^/=]*=[^/]*/)*"
_OTHER_NAME = re.compile(rf"(?P<topic>[^/]+)/{_COLUMN}partition=(?P<partition>\d{{1,10}})/{_COLUMN}[^/_.][^/]*")


class FileName(NamedTuple):
    """`start`: the offset in the name, else 0."""

    topic: str
    partition: int
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLayout:
    """Naming rules of an archive.

    `topics`: text before a topic's name, such as `topics/`. `suffixes`: allowed suffixes of file names; offsite writes
    the first. `any_name`: foreign files may have any name without an offset and lie below folders of further columns.
    `advice`: help for files at another place.
    """

    topics: str
    suffixes: tuple[str, ...]
    any_name: bool = False
    advice: str = ""

    def topic_folder(self, topic: str) -> str:
        return f"{self.topics}{check_topic_name(topic)}/"

    def index_key(self, topic: str) -> str:
        return f"{self.topic_folder(topic)}{_INDEX}"

    def file_key(self, topic: str, partition: int, start: int) -> str:
        check(partition >= 0 and start >= 0, f"partition {partition}, offset {start}")
        name = f"{_cut(topic)}+{partition}-{start:0{_DIGITS}d}{self.suffixes[0]}"
        return f"{self.topic_folder(topic)}partition={partition}/{name}"

    def parse_file(self, key: str) -> FileName | None:
        """Parse the key of a file with records; None for another key. Raises `DamagedArchive` for an impossible
        partition or offset."""
        name = self._name(key)
        if (offsite_name := self.parse_own_file(key)) is not None:
            return offsite_name
        if (numbered := _numbered(name)) is not None:
            return _claimed(key, numbered["topic"], int(numbered["partition"]), 0)
        if self.any_name and (other := _OTHER_NAME.fullmatch(name)):
            return _claimed(key, other["topic"], int(other["partition"]), 0)
        return None

    def is_stray(self, key: str) -> bool:
        """Whether `key` has the suffix of a file with records but lies where no reader looks. Stray files are reported,
        because a stray file may hold records missed later. Names ignored by Spark are never stray."""
        is_hidden = any(part.startswith(("_", ".")) for part in key.split("/"))
        return not is_hidden and key.endswith(self.suffixes) and self.parse_file(key) is None

    def parse_own_file(self, key: str) -> FileName | None:
        """Parse a name given by offsite; None for a foreign file."""
        match = _numbered(self._name(key))
        if match is None or len(match["number"]) != _DIGITS or _cut(match["topic"]) != match["cut"]:
            return None
        return _claimed(key, match["topic"], int(match["partition"]), int(match["number"]))

    def file_number(self, key: str) -> int | None:
        """Return the number in a file's name, the position among the files of the partition; None without a number."""
        match = _numbered(self._name(key))
        return None if match is None else int(match["number"])

    def _name(self, key: str) -> str:
        """Return the text between prefix and suffix of a file with records; empty if prefix or suffix is missing."""
        suffix = next((suffix for suffix in self.suffixes if key.endswith(suffix)), None)
        is_one = suffix is not None and key.startswith(self.topics)
        return key.removeprefix(self.topics).removesuffix(suffix or "") if is_one else ""

    def parse_index(self, key: str) -> str | None:
        """Return the topic whose index is `key`, else None."""
        topic = key.removeprefix(self.topics).removesuffix(f"/{_INDEX}")
        return topic if key == f"{self.topics}{topic}/{_INDEX}" and is_topic_name(topic) else None


def _numbered(name: str) -> re.Match[str] | None:
    match = _NAME.fullmatch(name)
    return match if match and match["cut"] in {match["topic"], _cut(match["topic"])} else None


def _cut(topic: str) -> str:
    return topic[:_MAX_TOPIC_IN_FILE_NAME]


def _claimed(key: str, topic: str, partition: int, start: int) -> FileName | None:
    """Return None for a text that cannot name a topic. Raises `DamagedArchive`."""
    check_claims(key, partition=partition, start=start)
    return FileName(topic, partition, start) if is_topic_name(topic) else None
