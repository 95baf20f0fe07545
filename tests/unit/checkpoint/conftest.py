from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fake_cluster.site import Site, open_site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A source with a topic of two partitions, backed up once: commit 1."""
    with open_site(tmp_path) as opened:
        opened.source.make_topic("orders", partitions=2)
        opened.source.write("orders", [b"a", b"b"])
        opened.back_up("orders*")
        yield opened
