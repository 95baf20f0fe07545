"""Parquet files with the rows of Spark's Kafka source: `topic=<topic>/partition=<nr>/…`, with an index beside the
files."""

from __future__ import annotations

from offsite.archives.parquet.archive import ParquetReader, ParquetWriter

__all__ = ["ParquetReader", "ParquetWriter"]
