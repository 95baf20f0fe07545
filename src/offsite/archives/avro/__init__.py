"""Avro object container files in the layout of the seed format: `topics/<topic>/partition=<nr>/…`, with an index."""

from __future__ import annotations

from offsite.archives.avro.archive import AvroReader, AvroWriter
from offsite.archives.avro.container import CODECS
from offsite.archives.avro.encoding import PLAIN_SCHEMA, SCHEMA

__all__ = ["CODECS", "PLAIN_SCHEMA", "SCHEMA", "AvroReader", "AvroWriter"]
