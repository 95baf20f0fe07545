"""What is no damage and yet worth knowing of an archive: it stops no import, and is said."""

from __future__ import annotations

import pytest

from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from tests.integration.archives.exchange import Exchange, NewSegment


@pytest.mark.parametrize("skip_damaged", [False, True])
def test_records_like_transaction_markers_are_said_and_are_no_damage(exchange: Exchange, skip_damaged: bool) -> None:
    marker = Record(4, 1_700_000_000_000, 0, b"\0\0\0\1", b"\0\0\0\0\0\7")
    exchange.commit(NewSegment(partition=0, start=4, end=5, batches=[bytes(encode([marker]))]))
    exchange.export("osodevops", "archive")
    result = exchange.bring_in("osodevops", "archive", "imported", skip_damaged=skip_damaged)
    assert result.complete
    assert result.records == 1
    assert "records that look like transaction markers were kept, the first at offset 4" in result.fidelity[-1]
