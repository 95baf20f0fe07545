"""Archives of kafka-backup segments (itadventurer/kafka-backup): a folder a topic, records and indexes in files."""

from __future__ import annotations

from offsite.archives.kafka_backup.reader import KafkaBackupReader
from offsite.archives.kafka_backup.writer import KafkaBackupWriter

__all__ = ["KafkaBackupReader", "KafkaBackupWriter"]
