"""JSON lines: every record is an object on a line, `topics/<topic>/partition=<nr>/….jsonl`, with an index."""

from __future__ import annotations

from offsite.archives.jsonl.compression import COMPRESSIONS
from offsite.archives.jsonl.reader import JsonlReader
from offsite.archives.jsonl.writer import JsonlWriter

__all__ = ["COMPRESSIONS", "JsonlReader", "JsonlWriter"]
