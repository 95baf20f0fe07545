"""Avro object container files in the layout of the seed format: `topics/<topic>/partition=<nr>/…`, with an index."""

from __future__ import annotations

from offsite.archives.avro.block_codec import CODECS
from offsite.archives.avro.reader import AvroReader
from offsite.archives.avro.schema import PLAIN_SCHEMA, SCHEMA
from offsite.archives.avro.writer import AvroWriter

__all__ = ["CODECS", "PLAIN_SCHEMA", "SCHEMA", "AvroReader", "AvroWriter"]
