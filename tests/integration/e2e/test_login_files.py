"""Logins whose secret is in no client.properties, on the workers of a Spark cluster: nobody sees the secret.

The driver sends workers the path of a keytab alone. Each worker reads the file for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.integration.e2e.command import Finished, started
from tests.integration.e2e.site import new_name, produce_to
from tests.integration.e2e.test_secrets import MESSAGES, ON_CLUSTER, chosen_spark, event_log, scratch
from tests.integration.e2e.watch import MARK, OWN, Watch
from tests.integration.kafka.cluster import Cluster
from tests.integration.kafka.test_kerberos import by_keytab, kerberos_site, lines

__all__ = ["scratch"]
pytestmark = pytest.mark.xdist_group("spark-cluster")


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A site that asks for it. `plain`: brokers that ask for none. `environment`: of command and workers. `logins`
    counts those that passed."""

    plain: str
    properties: str
    secrets: Mapping[str, str | bytes]
    logins: Callable[[], int]
    environment: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def by_kerberos_keytab(folder: Path) -> Iterator[Login]:
    with kerberos_site(folder) as realm:
        keys = realm.kdc.keys_in(realm.keytab)
        assert {len(key) for key in keys} >= {32}
        yield Login(
            plain=realm.broker.bootstrap,
            properties=lines(realm, by_keytab(realm.keytab)),
            secrets={f"key {number} of Kerberos": key for number, key in enumerate(keys)},
            logins=lambda: realm.kdc.tickets_of("backup"),
            environment={"KRB5_CONFIG": str(realm.kdc.config)},
        )


Site = Callable[[Path], AbstractContextManager[Login]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Commands of one login, on one Spark, and who watches them."""

    login: Login
    folder: Path
    spark: list[str]
    watch: Watch
    environment: Mapping[str, str]
    topic: str

    def run(self, *words: str | Path) -> Finished:
        options = ["--kafka-config", self.folder / "client.properties", "--backup", "b"]
        return started(*words, *options, "--verbose", *self.spark, environment=self.environment)

    def assert_unseen(self, *done: Finished) -> None:
        for ended in done:
            self.watch.look_at("what a command prints", (ended.stdout + ended.stderr).encode())
        self.watch.look_at("the log", (self.folder / "log").read_bytes())
        for path in (self.folder / "repository").rglob("*"):
            self.watch.look_at(str(path), path.read_bytes() if path.is_file() else b"")
        assert self.watch.found == set()
        assert "java" in self.watch.commands, self.watch.commands


@contextmanager
def scene(login: Login, kind: str, folder: Path, scratch: Path, *, of_workers: Mapping[str, str]) -> Iterator[Scene]:
    """On a cluster whose workers have the variables `of_workers`."""
    with chosen_spark(kind, folder, {MARK: scratch.name, **of_workers}) as spark:
        written = [folder / "worker-0" / "work", folder / "events"] if spark else []
        watch = Watch(
            secrets=login.secrets,
            inherited=frozenset(),
            folders=(scratch, *written),
            mark=scratch.name,
        )
        environment = {
            **login.environment,
            MARK: scratch.name,
            OWN: scratch.name,
            "TMPDIR": str(scratch),
            "SPARK_CONF_DIR": str(event_log(folder)),
            "OFFSITE_REPO": str(folder / "repository"),
            "OFFSITE_LOG_FILE": str(folder / "log"),
        }
        topic = Cluster(login.plain).make_topic()
        produce_to(login.plain, topic, MESSAGES)
        (folder / "client.properties").write_text(login.properties)
        assert started("init", environment=environment).exit_code == 0
        with watch.looking():
            yield Scene(login=login, folder=folder, spark=spark, watch=watch, environment=environment, topic=topic)


@pytest.mark.parametrize("kind", [pytest.param("cluster", marks=ON_CLUSTER)])
@pytest.mark.parametrize("site", [by_kerberos_keytab])
def test_no_secret_of_a_login_outside_of_the_file_is_seen(site: Site, kind: str, tmp_path: Path, scratch: Path) -> None:
    with site(tmp_path) as login, scene(login, kind, tmp_path, scratch, of_workers=login.environment) as given:
        backup = given.run("backup", "run", "--topics", given.topic)
        restore = given.run("restore", "run", "--rename", f"{given.topic}={new_name(given.topic)}", "--yes")
        assert (backup.exit_code, restore.exit_code) == (0, 0), backup.stderr + restore.stderr
        assert restore.result["verified"] is True
        assert login.logins() >= 2, "the command and a worker"
    given.assert_unseen(backup, restore)
