"""What one generation holds and another one lacks, read by Spark from real logs with transactions and tombstones."""

from __future__ import annotations

import random
from dataclasses import replace

from offsite.engine.runner import Runner
from offsite.generations.lost_keys import lost_of_backups
from offsite.repository.segments.segment import SegmentList
from tests.integration.e2e.site import Site
from tests.integration.e2e.test_compaction import keyed
from tests.integration.e2e.transactions import with_transaction


def test_keys_that_nothing_replaced_or_deleted_are_lost(site: Site, spark: Runner) -> None:
    rng = random.Random(7)
    topic = site.make_topic(cleanup_policy="compact", min_compaction_lag_ms=str(2**63 - 1))
    site.produce(topic, keyed(rng, 0, 40))
    with_transaction(site, topic, keyed(rng, 40, 60), commit=True)
    with_transaction(site, topic, keyed(rng, 60, 80), commit=False)
    site.back_up(topic)
    site.produce(topic, keyed(rng, 80, 84))
    with_transaction(site, topic, keyed(rng, 84, 90), commit=False)
    site.back_up()
    old, store = site.backup.state(), site.backup.store
    ((known, segments),) = old.segments.items()
    border = segments[-1].start
    new = replace(old, segments={known: SegmentList(segments[-1:])})
    latest = {record.key: record for record in site.read(topic)[0]}
    lost = [each.offset for each in latest.values() if each.value is not None and each.offset < border]
    assert lost, "the seed says nothing"
    (told,) = lost_of_backups(old, new, topics=None, store=store, runner=spark)
    keys = f"{len(lost)} key{'' if len(lost) == 1 else 's'}"
    assert told == f"{topic}/0: {keys} from offset {min(lost)} on that were not replaced or deleted"
    assert lost_of_backups(old, old, topics=None, store=store, runner=spark) == ()
