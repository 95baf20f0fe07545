from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from offsite.jobs.workers import SECRET
from offsite.kafka.cluster import Cluster
from offsite.metastore.backup_file import BackupFile
from offsite.metastore.folder import BackupName, NameForm
from offsite.serve.app import routes
from offsite.serve.browsers import Hosts
from offsite.serve.coordinator import OneRepository
from offsite.serve.gate import Gate, GateRules
from offsite.serve.sessions import Sessions
from offsite.serve.site import SOURCE, ClusterAddress, SiteSettings
from offsite.serve.site import Site as Coordinator
from offsite.serve.tokens import TokenFile, new_token
from tests.fake_cluster.site import BACKUP, Site, open_site
from tests.unit.metastore.commands import HEADER, command

ROLES = ("watch", "read", "operate", "restore")
SEEING = ("read+records", "operate+records")


class FakedClusters(Coordinator):
    """A coordinator whose clusters are the doubles of `site`."""

    def __init__(self, settings: SiteSettings, site: Site) -> None:
        super().__init__(settings)
        self.clusters = {SOURCE: site.source.connected, "target": site.target.connected}
        self.begun: list[tuple[str, tuple[str, ...]]] = []
        self.secrets: dict[str, str] = {}
        self.workers.begin = self._begun  # type: ignore[method-assign]

    def cluster(self, name: str = SOURCE) -> Cluster:
        self.cluster_address(name)
        return self.clusters[name]

    def _begun(self, job: str, arguments: Any, environment: Mapping[str, str]) -> None:
        self.begun.append((job, tuple(arguments)))
        self.secrets[job] = environment[SECRET]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A source with a topic of two partitions, backed up once. It has share groups, and the target has not."""
    with open_site(tmp_path) as opened:
        opened.source.has_share_groups = opened.source.sets_positions = True
        opened.source.make_topic("orders", partitions=2)
        opened.source.write("orders", [b"a", b"b"])
        opened.back_up("orders*")
        yield opened


@pytest.fixture
def coordinator(site: Site, metastores: Path) -> FakedClusters:
    places = {SOURCE: ClusterAddress(bootstrap="source:9092"), "target": ClusterAddress(bootstrap="target:9092")}
    place = site.repository.store.url
    return FakedClusters(SiteSettings(repo=place, backup=BACKUP, addresses=places, metastore=metastores), site)


@pytest.fixture
def metastores(tmp_path: Path) -> Path:
    """A folder with the backup of one command topic."""
    (folder := tmp_path / "metastores").mkdir(mode=0o700)
    name = BackupName(topic=HEADER.topic, made_ms=5000, form=NameForm.KLIP)
    with BackupFile.create(folder, name, HEADER) as file:
        file.append([command(1), command(2)])
    return folder


@pytest.fixture
def secrets(tmp_path: Path) -> dict[str, str]:
    """A token of each role, and of two that may see records."""
    names = {role: f"{role}er" for role in ROLES} | {role: role.replace("+", "-") for role in SEEING}
    return {role: new_token(f"{name}:{role}", tmp_path / "tokens") for role, name in names.items()}


@pytest.fixture
def tokens(secrets: dict[str, str], tmp_path: Path) -> TokenFile:
    assert secrets
    return TokenFile(tmp_path / "tokens")


_routes = functools.cache(routes)
Connect = Callable[..., TestClient]


def behind_gate(site: Coordinator, guarded: GateRules) -> ASGIApp:
    """As `make_app`, with the routes that all tests of a process share, which asks one thing at a time."""
    gate = Gate(OneRepository(site, _routes()), guarded)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        _routes().state.guarded = guarded
        await gate(scope, receive, send)

    return app


def client_to(app: ASGIApp, token: str | None) -> TestClient:
    """A client of the machine on which `app` listens."""
    return TestClient(
        app,
        base_url="http://127.0.0.1:8080",
        headers={"Authorization": f"Bearer {token}"} if token else {},
        raise_server_exceptions=False,
        follow_redirects=False,
    )


@pytest.fixture
def connect(coordinator: FakedClusters) -> Connect:
    """Makes a client of a coordinator with these rules, which sends this token."""

    def client(*, token: str | None = None, **rules: Any) -> TestClient:
        guarded = replace(
            GateRules(hosts=Hosts.of(()), sessions=Sessions(b"k" * 32), tokens=None, read_only=False), **rules
        )
        return client_to(behind_gate(coordinator, guarded), token)

    return client


@pytest.fixture
def client(connect: Connect) -> TestClient:
    """A client on the coordinator's own machine, which asks for no token."""
    return connect()
