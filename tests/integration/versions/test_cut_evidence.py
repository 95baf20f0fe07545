"""The evidence for a cut on the oldest and the newest brokers: those before 3.0 list no transactions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from offsite.sandbox import KNOWN_VERSIONS, SandboxSettings
from tests.integration.e2e.cut_evidence import (
    Seen,
    assert_changes_are_all,
    assert_commits_are_all,
    assert_whole_where_clean,
)
from tests.integration.kafka.cluster import Cluster
from tests.integration.versions.test_round_trip import DESCRIBES_TRANSACTIONS
from tests.shared_brokers import running

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module", params=KNOWN_VERSIONS)
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Seen, bool]]:
    version: str = request.param
    with running(tmp_path_factory.mktemp(version), SandboxSettings(kafka_version=version)) as (_, info):
        yield Seen(Cluster(info.bootstrap)), int(version.partition(".")[0]) >= DESCRIBES_TRANSACTIONS


def test_the_evidence_holds(seen: tuple[Seen, bool]) -> None:
    evidence, lists = seen
    assert_whole_where_clean(evidence)
    assert_changes_are_all(evidence)
    assert_commits_are_all(evidence)
    for each in evidence.takings:
        assert set(each.taken.listed) >= set(evidence.producers) if lists else not each.taken.listed
