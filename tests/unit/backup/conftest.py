"""A compacted topic that is backed up, and a store whose clock is put forward."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.batches import make_batch
from tests.fake_cluster.site import Site


@pytest.fixture
def pass_ms(site: Site, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Puts the store's clock forward, or back."""
    store = type(site.repository.store)
    now_ms, passed = store.now_ms, [0]
    monkeypatch.setattr(store, "now_ms", lambda own: now_ms(own) + sum(passed))
    return passed.append


@pytest.fixture
def users(site: Site) -> Site:
    """A compacted topic with a batch, backed up once."""
    site.source.make_topic("users", cleanup_policy="compact")
    put(site, 0)
    site.back_up("users", "more*")
    return site


def put(site: Site, base: int, *, topic: str = "users", partition: int = 0) -> None:
    site.source.topics[topic].partitions[partition].put(make_batch(base))
