"""The first page beside the living source: what is lost there, with the way back; it waits for no cluster."""

from __future__ import annotations

import re
from html import unescape

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from offsite.cli.app import app
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.net.routing import shared_router
from offsite.model.errors import BadOption
from offsite.overview.comparison import SourceComparison, TopicComparison, TopicState
from offsite.overview.source_watch import SourceWatch
from offsite.serve.tokens import TokenFile
from offsite.upkeep.verification.last_checks import remember_check
from offsite.upkeep.verification.run import verify_quick
from tests.fake_cluster.site import BACKUP, Site
from tests.unit.serve.conftest import Connect, FakedClusters
from tests.unit.serve.test_pages import BASE, Tree, shown
from tests.unit.serve.test_pointing import fields_of
from tests.virtual_time import VirtualClock

MANY = 2_000


@pytest.fixture
def watch(coordinator: FakedClusters, site: Site) -> SourceWatch:
    """That of the coordinator, with a clock that does not wait for brokers."""
    clock = VirtualClock()
    coordinator.watch = SourceWatch(
        open_cluster=lambda: ClusterAdmin(shared_router(site.source.config), clock=clock),
        list_backups=lambda: [BACKUP],
        open_backup=coordinator.cached_backup,
        clock=clock,
        interval_s=30,
    )
    return coordinator.watch


def lose(site: Site, watch: SourceWatch) -> None:
    del site.source.topics["orders"]
    watch.look()


def test_a_topic_that_is_behind_is_told_with_the_last_pass(client: TestClient, site: Site, watch: SourceWatch) -> None:
    site.source.write("orders", [b"c"])
    watch.look()
    text = shown(client, "/")
    assert "What is behind was not in a commit yet; the last complete pass was" in text
    assert "Until deletion: the least time until the source may delete" in text


def test_a_lost_topic_is_told_first_and_its_link_fills_in_the_form(
    client: TestClient, site: Site, watch: SourceWatch
) -> None:
    lose(site, watch)
    text = shown(client, "/")
    assert text.index("Lost at the source: orders (gone).") < text.index("Safe, never proven.")
    (link,) = re.findall(r'class="button" href="([^"]+)">Restore orders<', text)
    fields = fields_of(shown(client, unescape(link)))
    chosen = {name: fields[name] for name in ("pick.orders", "as.orders", "point", "groups", "target")}
    assert list(chosen.values()) == ["on", "orders", "commit-1", "all", "source"]


def test_the_form_says_what_the_source_has_now_and_proposes_names_beside_it(
    client: TestClient, site: Site, watch: SourceWatch
) -> None:
    watch.look()
    there = shown(client, f"{BASE}/restore?topics=orders")
    assert (fields_of(there)["as.orders"], ">current<" in there) == ("orders-restored", True)
    elsewhere = shown(client, f"{BASE}/restore?topics=orders&target=target")
    assert (fields_of(elsewhere)["as.orders"], "told by the plan" in elsewhere) == ("orders", True)
    turned = client.post(f"{BASE}/restore/choice", data=fields_of(there) | {"target": "target"}).text
    assert fields_of(turned)["as.orders"] == "orders", "a name that was proposed for another cluster is no edit"
    lose(site, watch)
    lost = shown(client, f"{BASE}/restore?topics=orders")
    assert (fields_of(lost)["as.orders"], "gone at the source" in lost) == ("orders", True)


def test_page_and_json_tell_the_same(client: TestClient, site: Site, watch: SourceWatch) -> None:
    lose(site, watch)
    (backup,) = client.get("/api/v1/status").json()["backups"]
    (topic,) = backup["source"]["topics"]
    assert (topic["topic"], topic["state"], topic["alarm"]) == ("orders", "gone", True)
    assert client.get(f"/api/v1{BASE}/source").json()["topics"] == backup["source"]["topics"]
    for path in ("/", f"{BASE}/source"):
        assert topic["detail"] in shown(client, path)


def test_whoever_may_not_plan_sees_the_loss_without_the_link(
    connect: Connect, site: Site, watch: SourceWatch, tokens: TokenFile, secrets: dict[str, str]
) -> None:
    lose(site, watch)
    watcher = connect(token=secrets["watch"], tokens=tokens)
    for path in ("/", f"{BASE}/source"):
        assert "gone at the source" in shown(watcher, path)
        assert "Restore orders" not in shown(watcher, path)
    assert "Restore orders" in shown(connect(token=secrets["read"], tokens=tokens), "/")


def test_a_page_asks_no_cluster(client: TestClient, site: Site, watch: SourceWatch) -> None:
    watch.look()
    site.source.answering.clear()
    assert "Compared with the source" in shown(client, "/")
    site.source.answering.set()


def test_of_many_topics_the_worst_are_shown_and_the_rest_is_a_link(
    client: TestClient, coordinator: FakedClusters, watch: SourceWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = TopicComparison(
        topic="gone", state=TopicState.GONE, alarm=True, restore={"topics": "gone", "commit": "1", "groups": "all"}
    )
    fine = (
        TopicComparison(
            topic=f"t{number}", state=TopicState.CURRENT, restorable_to_ms=1_700_000_000_000, lag_records=0, lag_s=0.0
        )
        for number in range(MANY)
    )
    many = SourceComparison.of((lost, *fine), 1)
    monkeypatch.setattr(watch, "comparison", lambda _: many)
    answer = client.get("/api/v1/status?topics=5")
    (backup,) = answer.json()["backups"]
    assert backup["source"]["topics"][0]["topic"] == "gone"
    assert len(answer.content) < 10_000
    assert (len(backup["source"]["topics"]), backup["source"]["counts"]) == (5, {"gone": 1, "current": MANY})
    (topic,) = client.get(f"/api/v1{BASE}/source?topics=100&skip={MANY}").json()["topics"]
    assert topic["topic"] == "t1999"
    assert len(client.get(f"/api/v1{BASE}/source").json()["topics"]) == MANY + 1
    text = shown(client, "/")
    assert f"All 2,001 topics of {BACKUP}" in text
    assert len(text) < 50_000
    assert len(shown(client, f"{BASE}/source")) < 100_000
    assert "t1999" in shown(client, f"{BASE}/source?find=t1999")
    assert Tree(text).open == []


def test_without_a_source_nothing_is_compared(client: TestClient, coordinator: FakedClusters) -> None:
    coordinator.watch = None
    assert "At the source" not in shown(client, "/")
    assert "--bootstrap" in shown(client, f"{BASE}/source")
    assert client.get(f"/api/v1{BASE}/source").status_code == 400


@pytest.mark.parametrize(
    ("is_verified", "verdict"), [(False, 'warn">Safe, never proven. 1 backup'), (True, 'good">Safe. 1 backup')]
)
def test_safe_is_green_only_where_it_was_proven(
    client: TestClient, site: Site, *, is_verified: bool, verdict: str
) -> None:
    if is_verified:
        remember_check(site.backup, verify_quick(site.backup))
    text = shown(client, "/")
    assert f'class="verdict {verdict}' in text
    assert ("Prove it: run a restore drill" in text) is not is_verified


@pytest.mark.parametrize("interval", ["0.1s", "often"])
def test_an_interval_that_would_ask_brokers_all_the_time_is_refused(site: Site, interval: str) -> None:
    words = ["serve", "--repo", site.repository.store.url, "--bootstrap", "localhost:1", "--interval", interval]
    error = CliRunner().invoke(app, words).exception
    assert isinstance(error, BadOption)
    assert interval in error.message
