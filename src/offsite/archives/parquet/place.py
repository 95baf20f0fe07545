"""The layout of a Parquet archive: a partitioned table for Spark. Files written there by Spark are read too."""

from __future__ import annotations

from offsite.archives.archive_layout import ArchiveLayout
from offsite.archives.files import Files
from offsite.archives.indexed_archive import RECORDS_ONLY, IndexedArchive

__all__ = ["PARQUET", "parquet_archive"]

PARQUET = "parquet"
_LAYOUT = ArchiveLayout(
    topics="topic=",
    suffixes=(".parquet",),
    any_name=True,
    advice="write the table of Spark's Kafka source with .write.partitionBy('topic', 'partition').parquet(…); the "
    "columns key, value, offset and timestamp are required",
)


def parquet_archive(files: Files) -> IndexedArchive:
    return IndexedArchive(files=files, layout=_LAYOUT, kinds={PARQUET: (RECORDS_ONLY,)})
