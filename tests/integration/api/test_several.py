"""A coordinator of several repositories as users have it: its own process, jobs of their own, a source on a socket."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fake_cluster.site import BACKUP, Site, open_site
from tests.integration.api.conftest import Coordinator, Serve

TOPICS = {"shop": "orders", "bank": "accounts"}


def until(seen: Callable[[], bool], limit: int = 1200) -> bool:
    return any(seen() or threading.Event().wait(0.1) for _ in range(limit))


def fill(site: Site, topic: str) -> None:
    site.source.make_topic(topic)
    site.source.write(topic, [b"a", b"b"])
    site.back_up("*")


def row(coordinator: Coordinator, name: str) -> Any:
    rows = coordinator.get("/api/v1/repositories")["repositories"]
    return next(row for row in rows if row["repository"] == name)


def status_of(coordinator: Coordinator, path: str) -> int:
    """Of a request whose path goes out as it is written."""
    connection = http.client.HTTPConnection(coordinator.url.removeprefix("http://"), timeout=60)
    connection.request("GET", path)
    return connection.getresponse().status


def test_two_repositories_are_told_apart_and_a_third_that_is_not_there_hides_none(serve: Serve, tmp_path: Path) -> None:
    with open_site(tmp_path / "shop") as shop, open_site(tmp_path / "bank") as bank:
        for site, topic in ((shop, TOPICS["shop"]), (bank, TOPICS["bank"])):
            fill(site, topic)
        brokers = ",".join(map(str, shop.source.config.bootstrap))
        (config := tmp_path / "serve.yaml").write_text(
            f"repositories:\n"
            f"  gone: {{repo: {tmp_path / 'gone'}}}\n"
            f"  bank: {{repo: {bank.repository.store.url}, read-only: true}}\n"
            f"  shop: {{repo: {shop.repository.store.url}, bootstrap: '{brokers}', interval: 1s}}\n"
        )
        coordinator = serve("--config", config)
        assert until(lambda: row(coordinator, "shop")["safe"] and row(coordinator, "bank")["safe"])
        assert row(coordinator, "gone")["problem"].startswith("OFF-1001: ")

        for name, topic in TOPICS.items():
            shown = coordinator.get(f"/r/{name}/api/v1/backups/{BACKUP}")
            assert [part["topic"] for part in shown["topics"]] == [topic]

        begun = coordinator.post(f"/r/shop/api/v1/backups/{BACKUP}/verifications", {})
        job = begun.json()["href"]
        assert until(lambda: coordinator.get(job)["state"] == "succeeded"), coordinator.get(job)
        assert coordinator.get("/r/bank/api/v1/jobs")["jobs"] == []
        assert coordinator.post(f"/r/bank/api/v1/backups/{BACKUP}/verifications", {}).status_code == 403

        for path in ("/r/shop/%2e%2e/bank/", "/r/shop/../bank/", "/r/bank%2f", "//r/bank/", "/r/%62ank/"):
            assert status_of(coordinator, path) == 400, path

        del shop.source.topics[TOPICS["shop"]]
        assert until(lambda: bool(row(coordinator, "shop")["losses"]))
        first = coordinator.get("/api/v1/repositories")["repositories"][0]
        (loss,) = first["losses"]
        assert (first["repository"], loss["topic"], loss["state"]) == ("shop", "orders", "gone")
