"""JSON lines: every record is an object on a line, `topics/<topic>/partition=<nr>/….jsonl`, with an index."""

from __future__ import annotations

from offsite.archives.jsonl.archive import COMPRESSIONS, JsonlReader, JsonlWriter

__all__ = ["COMPRESSIONS", "JsonlReader", "JsonlWriter"]
