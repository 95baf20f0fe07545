"""Archives of kafka-backup segments (itadventurer/kafka-backup): a folder per topic, records and indexes in files."""

from __future__ import annotations

from offsite.archives.kafka_backup.inspect import (
    IndexState,
    InspectedPartition,
    InspectedSegment,
    Inspection,
    PlacedRecord,
    inspect,
    inspect_records,
)
from offsite.archives.kafka_backup.reader import KafkaBackupReader
from offsite.archives.kafka_backup.repair import ReindexedSegment, ReindexResult, reindex
from offsite.archives.kafka_backup.writer import KafkaBackupWriter

__all__ = [
    "IndexState",
    "InspectedPartition",
    "InspectedSegment",
    "Inspection",
    "KafkaBackupReader",
    "KafkaBackupWriter",
    "PlacedRecord",
    "ReindexResult",
    "ReindexedSegment",
    "inspect",
    "inspect_records",
    "reindex",
]
