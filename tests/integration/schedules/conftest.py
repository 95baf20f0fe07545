"""One world of topics for all schedules of a module, and brokers that misbehave in front of the real one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from offsite.sandbox import SandboxInfo
from tests.misbehaving_broker.proxy import MisbehavingBrokers
from tests.schedules.played import FETCH_BYTES
from tests.schedules.world import World, make_world


@pytest.fixture(scope="module")
def world(broker: SandboxInfo) -> World:
    return make_world(broker.bootstrap)


@pytest.fixture(scope="module")
def brokers(broker: SandboxInfo) -> Iterator[MisbehavingBrokers]:
    with MisbehavingBrokers(broker.bootstrap, fetch_bytes=FETCH_BYTES) as brokers:
        yield brokers
