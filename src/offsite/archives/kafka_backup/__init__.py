"""Archives of kafka-backup segments (itadventurer/kafka-backup): a folder a topic, records and indexes in plain files."""

from __future__ import annotations

from offsite.archives.kafka_backup.reader import KafkaBackupReader

__all__ = ["KafkaBackupReader"]
