"""What the topic held of which other tools made the archives under `tests/fixtures/peers`, by an independent client."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path

from offsite.log.records.record import Record

PEERS = Path(__file__).parent / "fixtures" / "peers"


def truth() -> dict[int, list[Record]]:
    """Records by partition, in the order of offsets."""
    found: dict[int, list[Record]] = {}
    for line in (PEERS / "mixed-it.truth.jsonl").read_text().splitlines():
        row = json.loads(line)
        headers = tuple((name, _bytes_or_null(value)) for name, value in row["headers"])
        stamp = (row["offset"], row["timestamp"], row["timestampType"])
        record = Record(*stamp, _bytes_or_null(row["key"]), _bytes_or_null(row["value"]), headers)
        found.setdefault(row["partition"], []).append(record)
    return {partition: sorted(records, key=lambda record: record.offset) for partition, records in found.items()}


def _bytes_or_null(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
