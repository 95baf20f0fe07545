"""Each login by a coordinator, by a declared backup and by a Python program, as by commands
(`e2e.test_logins_that_end`): the same file, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from offsite.repository.repository import Repository
from offsite.stores.open_store import open_store
from tests.integration.api.conftest import Serve
from tests.integration.api.test_serve import done
from tests.integration.e2e.command import clean_environment
from tests.integration.e2e.test_logins_that_end import LONG_S, SITES, Site, write
from tests.integration.kafka.cluster import Cluster
from tests.integration.operator.test_declared_backup import declared_home, until
from tests.s3_servers import ENVIRONMENT

RECORDS = 40
PROGRAM = """
import sys
from pathlib import Path

import offsite

folder, config, topic = sys.argv[1:]
repository = offsite.init(folder)
backed_up = repository.back_up("shop", kafka_config=Path(config), topics=[topic])
restored = repository.backup("shop").restore(kafka_config=Path(config), rename=[f"{topic}={topic}-again"])
print(backed_up.records, restored.records, restored.verified)
"""


@pytest.fixture(
    scope="module", params=["oauth", *(pytest.param(name, marks=pytest.mark.soak) for name in ("iam", "kerberos"))]
)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with SITES[request.param](tmp_path_factory.mktemp(request.param), LONG_S) as site:
        yield site


@pytest.fixture
def topic(site: Site) -> str:
    cluster = Cluster(site.broker.bootstrap)
    topic = cluster.make_topic(partitions=2)
    cluster.produce(topic, [f"order {number}".encode() for number in range(RECORDS)])
    return topic


@pytest.mark.soak
def test_a_coordinator_logs_in(site: Site, topic: str, serve: Serve, tmp_path: Path) -> None:
    Repository.init(open_store(str(tmp_path / "repository")))
    coordinator = serve("--kafka-config", write(tmp_path / "client.properties", site.right))
    assert done(coordinator, "/api/v1/backups/shop/runs", {"topics": [topic]})["result"]["records"] == RECORDS
    base = "/api/v1/backups/shop/restores"
    planned = coordinator.post(f"{base}/plan", {"rename": [f"{topic}={topic}-again"]}).json()
    restored = done(coordinator, base, {**planned["words"], "confirmation": planned["confirmation"]})
    assert (restored["result"]["records"], restored["result"]["verified"]) == (RECORDS, True)


@pytest.mark.soak
def test_a_program_logs_in(site: Site, topic: str, tmp_path: Path) -> None:
    config = write(tmp_path / "client.properties", site.right)
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "repository"), str(config), topic],
        env=clean_environment({"PYSPARK_PYTHON": sys.executable}),
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )
    assert ended.stdout.split() == [str(RECORDS), str(RECORDS), "True"], ended.stderr


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_declared_backup_logs_in(site: Site, tmp_path: Path) -> None:
    own = {name: os.environ[name] for name in ("AWS_CONFIG_FILE",) if name in os.environ}
    cluster, environment = Cluster(site.broker.bootstrap), {**ENVIRONMENT, **own}
    with declared_home(tmp_path, cluster, site.right, environment=environment) as home, home.operator():
        home.declare()
        home.await_reconciled()
        (low,) = home.described("backup")["backups"]
        home.apply(
            "Restore",
            backupUrl=f"{low['repository'].partition('?')[0]}#{low['backup']}",
            cluster="shop",
            rename=[f"{home.topic}={home.topic}-back"],
        )
        until(lambda: home.status("restore").get("reconciled") is True)
        restored = home.described("restore")
        assert (restored["phase"], restored["verified"]) == ("Completed", True)
