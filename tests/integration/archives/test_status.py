from __future__ import annotations

from offsite.overview.status import read_status
from tests.batches import make_log
from tests.integration.archives.exchange import Exchange, NewSegment


def test_an_import_does_not_grow_stale_as_a_backup_does(exchange: Exchange) -> None:
    exchange.commit(NewSegment(partition=0, start=0, end=40, batches=[make_log(0, 40)]))
    exchange.export("jsonl", "a")
    exchange.bring_in("jsonl", "a", "back")
    status = read_status(exchange.repository, stale_after_s=-1)
    assert {each.backup: each.safe for each in status.backups} == {"back": True, "original": False}
