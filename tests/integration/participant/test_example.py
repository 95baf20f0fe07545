"""The example does what its page says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from offsite_participant.number import parse_note
from tests.integration.participant.site import Site, found

EXAMPLE = Path(__file__).parents[3] / "examples" / "participant" / "pay.py"


@pytest.mark.parametrize("how", [("--client", "kafka-python"), ("--form", "acks", "--name", "payer-1")], ids=" ".join)
def test_the_example_pays_each_order_under_its_number(site: Site, how: tuple[str, ...]) -> None:
    site.order(b'{"amount": 5}')
    own = ("--orders", site.orders, "--payments", site.paid, "--control-topic", site.control)
    group = ("--group", f"payers-{site.name}", "--count", "2")
    command = [sys.executable, str(EXAMPLE), "--bootstrap", site.bootstrap, *own, *group, *how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as paying:
        found(lambda: site.paid_numbers() or None)
        site.mark(3)
        site.order(b'{"amount": 7}', number=3)
        told, _ = paying.communicate(timeout=60)
    assert (paying.returncode, told) == (0, f"checkpoint 3 at {site.orders}/0@1\n")
    assert [json.loads(each.value() or b"")["amount"] for each in site.read(site.paid)] == [5, 7]
    assert site.paid_numbers() == [0, 3]
    offset, metadata = site.metadata()
    note = parse_note(metadata)
    assert (offset, note and note.number) == (3, 3)
