"""Under a client quota brokers answer fetches without the partition: that takes longer, and loses nothing (KIP-219)."""

from __future__ import annotations

from offsite.backup.run import run_backup
from offsite.demo.data import BASE_MS, DemoMessage
from offsite.engine.runner import RunProgress
from offsite.model.cluster_settings import ClientQuota, QuotaEntity
from tests.integration.e2e.site import Site

PARTITIONS = 4
RECORDS = 140
CONSUMER_BYTES_PER_S = 20_000
VALUE = b"x" * 500


def test_a_backup_under_a_quota_holds_every_record_and_says_what_held_it_back(site: Site) -> None:
    topic = site.make_topic(partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        site.produce(
            topic,
            (
                DemoMessage(key=b"%d" % n, value=VALUE, timestamp_ms=BASE_MS + n, partition=partition)
                for n in range(RECORDS)
            ),
            batch_num_messages=10,
        )
    seen: list[RunProgress] = []
    set_quota(site, CONSUMER_BYTES_PER_S)
    try:
        plan = site.plan(topic)
        result = run_backup(
            plan, repository=site.repository, kafka=site.cluster.config, runner=site.spark, on_progress=seen.append
        )
    finally:
        set_quota(site, 1e12)
    assert (result.records, result.complete) == (PARTITIONS * RECORDS, True)
    assert seen[-1].throttled_s > 0
    site.assert_comes_back(topic)


def set_quota(site: Site, bytes_per_s: float) -> None:
    entity = QuotaEntity(parts=(("client-id", site.cluster.config.client_id),))
    limits = (("consumer_byte_rate", bytes_per_s),)
    assert not any(site.cluster.admin.settings.set_client_quotas([ClientQuota(entity=entity, limits=limits)]))
