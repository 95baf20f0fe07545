"""A coordinator beside its living source: what somebody deletes there stands on the first page, with the way back."""

from __future__ import annotations

import re
import time
from html import unescape

import pytest

from offsite.log.range import TopicPartition
from offsite.repository.repository import Repository
from tests.integration.api.conftest import Serve
from tests.integration.api.test_serve import RECORDS, done, repository, source, until
from tests.integration.e2e.command import offsite
from tests.integration.kafka.cluster import Cluster

__all__ = ["repository", "source"]
INTERVAL_S = 5
HTML = {"Accept": "text/html"}


@pytest.mark.soak
def test_a_deleted_topic_is_noticed_within_two_intervals(
    serve: Serve, repository: Repository, source: tuple[Cluster, str]
) -> None:
    cluster, topic = source
    cluster.admin.alter_topic_configs({topic: {"retention.ms": str(24 * 3_600_000)}})
    coordinator = serve("--bootstrap", cluster.bootstrap, "--interval", f"{INTERVAL_S}s")
    done(coordinator, "/api/v1/backups/nightly/runs", {"topics": [topic]})
    compared = "/api/v1/backups/nightly/source"
    assert until(lambda: coordinator.get(compared)["counts"] == {"current": 1}), coordinator.get(compared)

    here = TopicPartition(topic=topic, partition=0)
    cluster.admin.delete_records({here: cluster.admin.end_offsets([here])[here]})
    assert until(lambda: coordinator.get(compared)["counts"] == {"shrunk": 1}), coordinator.get(compared)
    assert "which its retention would keep" in coordinator.get(compared)["topics"][0]["detail"]

    deleted_ms = time.time() * 1000
    cluster.admin.delete_topics([topic])
    assert until(lambda: coordinator.get(compared)["counts"] == {"gone": 1}), coordinator.get(compared)
    assert coordinator.get(compared)["alarms"] == 1
    (lost,) = coordinator.get(compared)["topics"]
    assert (lost["topic"], lost["state"]) == (topic, "gone")
    assert lost["seen_ms"] <= lost["found_ms"] <= deleted_ms + 2 * 1000 * INTERVAL_S
    with coordinator.client() as client:
        page = client.get("/", headers=HTML).text
        assert f"Lost at the source: {topic} (gone)." in page
        (link,) = re.findall(r'class="button" href="([^"]+)"', page)
        form = client.get(unescape(link), headers=HTML).text
    assert f'name="pick.{topic}" checked' in form
    assert re.search(r'name="point" value="commit-[1-9][0-9]*" checked', form)

    place = repository.store.url
    status = offsite("status", "--repo", place, "--against", cluster.bootstrap)
    assert status.exit_code == 3, status.stderr
    (same,) = status.result["backups"][0]["source"]["topics"]
    assert (same["state"], same["restore"]) == ("gone", lost["restore"])

    base = "/api/v1/backups/nightly/restores"
    planned = coordinator.post(f"{base}/plan", {"topics": [topic], "commit": int(lost["restore"]["commit"])}).json()
    restored = done(coordinator, base, {**planned["words"], "confirmation": planned["confirmation"]})
    assert restored["result"]["records"] == RECORDS
    assert until(lambda: coordinator.get(compared)["counts"] == {"restored": 1}), coordinator.get(compared)
