"""Record values that compress as real ones do: JSON of one shape, ids and numbers at random, 200 bytes each."""

from __future__ import annotations

import json
import random
from pathlib import Path

from bench.scale import RECORD_BYTES

LINES = 20_000
"""Distinct values: 4 MB, far more than any codec sees at once in one batch."""

_SEED = 20_260_101
_CITIES = ("Bremen", "Lyon", "Porto", "Turku", "Gdansk", "Zagreb", "Leeds", "Ghent")
_STATES = ("created", "paid", "packed", "shipped", "delivered", "returned")


def write_payload(path: Path) -> Path:
    """A file for ProducerPerformance, which draws its values from the lines; the same one at every run."""
    source = random.Random(_SEED)  # noqa: S311  # a bench has nothing to hide
    path.write_text("\n".join(_line(source) for _ in range(LINES)) + "\n", encoding="ascii")
    return path


def _line(source: random.Random) -> str:
    order = {
        "order": source.randrange(10**9),
        "customer": f"{source.getrandbits(64):016x}",
        "state": source.choice(_STATES),
        "city": source.choice(_CITIES),
        "cents": source.randrange(100, 500_000),
        "at": 1_767_225_600_000 + source.randrange(10**9),
        "note": "",
    }
    room = RECORD_BYTES - len(json.dumps(order))
    order["note"] = f"{source.getrandbits(4 * room):0{room}x}"[:room]
    return json.dumps(order)
