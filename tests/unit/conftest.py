"""Two clusters that are none, and a repository."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from offsite.kafka import presence
from tests.fake_cluster.site import Site, open_site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with open_site(tmp_path) as opened:
        yield opened


@pytest.fixture
def asked_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a topic is there is asked twice, without the time in between."""
    monkeypatch.setattr(presence, "ASKED_AGAIN_AFTER_S", 0.0)
