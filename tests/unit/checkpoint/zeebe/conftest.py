from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from offsite.checkpoint.zeebe.address import ZeebeCluster, parse_address
from offsite.checkpoint.zeebe.client import ZeebeClient
from offsite.checkpoint.zeebe.management import Management
from offsite.checkpoint.zeebe.participant import ZeebeParticipant, ZeebeTimes
from tests.certificates import Certificates, make_certificates
from tests.fake_zeebe.server import ZeebeServer, serving

QUICK = ZeebeTimes(take_s=1.5, unseen_s=0.5, silent_s=0.5, watch_s=0.02, release_s=0.02, under_way_s=1.0)


@pytest.fixture
def zeebe() -> Iterator[ZeebeServer]:
    with serving() as server:
        yield server


@pytest.fixture
def participant_of() -> Callable[..., ZeebeParticipant]:
    def participant(
        zeebe: ZeebeServer,
        *,
        times: ZeebeTimes = QUICK,
        authorization: str = "",
        asked_at_ms: Callable[[int], int | None] = lambda _: None,
        timeout_s: float = 2.0,
    ) -> ZeebeParticipant:
        cluster = ZeebeCluster(address=parse_address(zeebe.url), authorization=authorization)
        management = Management(ZeebeClient(cluster, timeout_s=timeout_s))
        return ZeebeParticipant("zeebe", management, asked_at_ms=asked_at_ms, times=times)

    return participant


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))
