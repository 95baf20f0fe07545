"""The layout of an Avro archive, and the properties lost by the two variants."""

from __future__ import annotations

from offsite.archives.archive_layout import ArchiveLayout
from offsite.archives.files import Files
from offsite.archives.indexed_archive import RECORDS_ONLY, IndexedArchive

__all__ = ["AVRO", "AVRO_PLAIN", "avro_archive"]

AVRO, AVRO_PLAIN = "avro", "avro-plain"
_LAYOUT = ArchiveLayout(topics="topics/", suffixes=(".data",))
_KINDS = {
    AVRO: (RECORDS_ONLY,),
    AVRO_PLAIN: (
        RECORDS_ONLY,
        "plain Avro schema: timestamp types, null values, repeated headers and null header values are not kept",
    ),
}


def avro_archive(files: Files) -> IndexedArchive:
    return IndexedArchive(files=files, layout=_LAYOUT, kinds=_KINDS)
