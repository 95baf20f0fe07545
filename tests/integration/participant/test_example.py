"""The example does what its page says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from offsite.participant.number import parse_note, stamp_of, stamped
from tests.integration.participant.site import Site

EXAMPLE = Path(__file__).parents[3] / "examples" / "participant" / "pay.py"


@pytest.mark.parametrize("how", [("--client", "kafka-python"), ("--form", "acks", "--name", "payer-1")], ids=" ".join)
def test_the_example_pays_each_order_under_its_number(site: Site, how: tuple[str, ...]) -> None:
    site.order(b'{"amount": 5}')
    site.mark(3)
    site.order(b'{"amount": 7}', headers=stamped([], 3))
    own = ("--orders", site.orders, "--payments", site.paid, "--control-topic", site.control)
    group = ("--group", f"payers-{site.name}", "--count", "2")
    command = [sys.executable, str(EXAMPLE), "--bootstrap", site.bootstrap, *own, *group, *how]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == f"checkpoint 3 at {site.orders}/0@1\n"
    payments = list(site.read(site.paid))
    assert [json.loads(each.value() or b"")["amount"] for each in payments] == [5, 7]
    assert [stamp_of(each.headers()) for each in payments] == [0, 3]
    offset, metadata = site.metadata()
    note = parse_note(metadata)
    assert (offset, note and note.number) == (3, 3)
