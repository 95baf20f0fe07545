"""Logins whose secret is in no client.properties (keys of AWS, keytabs and tickets of Kerberos), in a command and on
the workers of a Spark cluster: nobody sees the secret, and a worker that lacks it is named.

The driver sends workers the names alone (a profile, a path). Each worker finds credentials of its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from socket import gethostname

import pytest

from tests.integration.e2e.command import Finished, started
from tests.integration.e2e.site import new_name, produce_to
from tests.integration.e2e.test_secrets import MESSAGES, ON_CLUSTER, SPARKS, chosen_spark, scratch, watched_environment
from tests.integration.e2e.watch import MARK, Watch
from tests.integration.kafka.cluster import Cluster
from tests.integration.kafka.test_kerberos import MODULE, by_keytab, kerberos_site, lines
from tests.integration.kafka.test_msk import KEY_ID, msk_site
from tests.msk_listener import AwsKey

__all__ = ["scratch"]
pytestmark = pytest.mark.xdist_group("spark-cluster")
NO_METADATA = {"AWS_EC2_METADATA_DISABLED": "true"}  # no machine of AWS


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A site that asks for it. `plain`: brokers that ask for none. `environment`: of command and workers. `of_command`:
    of the command alone. `lacking`: what is said of a worker that lacks it. `logins` counts those that passed."""

    plain: str
    properties: str
    secrets: Mapping[str, str | bytes]
    logins: Callable[[], int]
    environment: Mapping[str, str] = field(default_factory=dict)
    of_command: Mapping[str, str] = field(default_factory=dict)
    lacking: str = ""


@contextmanager
def by_profile(folder: Path) -> Iterator[Login]:
    key = AwsKey(secret=f"secret-{uuid.uuid4().hex}", token=f"token-{uuid.uuid4().hex}")
    (folder / "aws").write_text(
        f"[profile backup]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {key.secret}\n"
        f"aws_session_token = {key.token}\n"
    )
    profile = {"AWS_CONFIG_FILE": str(folder / "aws")}
    with msk_site(folder, keys={KEY_ID: key}) as site:
        yield Login(
            plain=site.broker.bootstrap,
            properties=site.properties(module='IAMLoginModule required awsProfileName="backup";'),
            secrets={"key of AWS": key.secret, "token of AWS": key.token},
            logins=lambda: len(site.judge.passed),
            environment={**profile, "AWS_REGION": "eu-west-1", **NO_METADATA},
            of_command=profile,
            lacking="AWS gives no credentials on {host}: ProfileNotFound",
        )


@contextmanager
def by_variables(folder: Path) -> Iterator[Login]:
    """The command has the keys in its environment."""
    key = AwsKey(secret=f"secret-{uuid.uuid4().hex}", token=f"token-{uuid.uuid4().hex}")
    with msk_site(folder, keys={KEY_ID: key}) as site:
        yield Login(
            plain=site.broker.bootstrap,
            properties=site.properties(),
            secrets={"key of AWS": key.secret, "token of AWS": key.token},
            logins=lambda: len(site.judge.passed),
            environment={"AWS_REGION": "eu-west-1", **NO_METADATA},
            of_command={
                "AWS_ACCESS_KEY_ID": KEY_ID,
                "AWS_SECRET_ACCESS_KEY": key.secret,
                "AWS_SESSION_TOKEN": key.token,
            },
            lacking="there are no AWS credentials on {host}",
        )


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


@contextmanager
def by_keytab_of_command(folder: Path) -> Iterator[Login]:
    """The path is one of the command's folder: there is no such file where a worker looks."""
    with kerberos_site(folder) as realm:
        path = Path("only-of-the-command.keytab")
        path.write_bytes(realm.keytab.read_bytes())
        yield Login(
            plain=realm.broker.bootstrap,
            properties=lines(realm, by_keytab(path)),
            secrets={},
            logins=lambda: realm.kdc.tickets_of("backup"),
            environment={"KRB5_CONFIG": str(realm.kdc.config)},
            lacking=f"failed on {{host}}: cannot read the keytab {path}: No such file or directory",
        )


@contextmanager
def by_cache_of_command(folder: Path) -> Iterator[Login]:
    with kerberos_site(folder) as realm:
        cache = realm.kdc.ticket_cache("backup", realm.keytab)
        yield Login(
            plain=realm.broker.bootstrap,
            properties=lines(realm, f"sasl.jaas.config={MODULE} useTicketCache=true;"),
            secrets={},
            logins=lambda: realm.kdc.tickets_of("backup"),
            environment={"KRB5_CONFIG": str(realm.kdc.config), "KRB5CCNAME": f"FILE:{folder}/none"},
            of_command={"KRB5CCNAME": f"FILE:{cache}"},
            lacking="failed on {host}: No Kerberos credentials available",
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
        more = [] if "plan" in words else ["--verbose", *self.spark]
        return started(*words, *options, *more, environment=self.environment)

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
            inherited=frozenset(login.secrets if login.of_command else ()),
            folders=(scratch, *written),
            mark=scratch.name,
        )
        environment = {
            **login.environment,
            **login.of_command,
            **watched_environment(folder, scratch, repository=str(folder / "repository")),
        }
        topic = Cluster(login.plain).make_topic()
        produce_to(login.plain, topic, MESSAGES)
        (folder / "client.properties").write_text(login.properties)
        assert started("init", environment=environment).exit_code == 0
        with watch.looking():
            yield Scene(login=login, folder=folder, spark=spark, watch=watch, environment=environment, topic=topic)


@pytest.mark.soak
@pytest.mark.parametrize("kind", SPARKS)
@pytest.mark.parametrize("site", [by_profile, by_kerberos_keytab])
def test_no_secret_of_a_login_outside_of_the_file_is_seen(site: Site, kind: str, tmp_path: Path, scratch: Path) -> None:
    with site(tmp_path) as login, scene(login, kind, tmp_path, scratch, of_workers=login.environment) as given:
        backup = given.run("backup", "run", "--topics", given.topic)
        restore = given.run("restore", "run", "--rename", f"{given.topic}={new_name(given.topic)}", "--yes")
        assert (backup.exit_code, restore.exit_code) == (0, 0), backup.stderr + restore.stderr
        assert restore.result["verified"] is True
        assert login.logins() >= 2, "the command and a worker"
    given.assert_unseen(backup, restore)


@pytest.mark.parametrize("kind", [pytest.param("cluster", marks=ON_CLUSTER)])
@pytest.mark.parametrize("site", [by_profile, by_variables, by_keytab_of_command, by_cache_of_command])
def test_a_worker_without_the_credentials_of_the_command_is_named(
    site: Site, kind: str, tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One error, and nothing of the command's credentials reaches the worker."""
    monkeypatch.chdir(tmp_path)
    with site(tmp_path) as login:
        of_workers = {name: value for name, value in login.environment.items() if name not in login.of_command}
        if "KRB5CCNAME" in login.environment:
            of_workers = dict(login.environment)
        with scene(login, kind, tmp_path, scratch, of_workers=of_workers) as given:
            plan = given.run("backup", "plan", "--topics", given.topic)
            backup = given.run("backup", "run", "--topics", given.topic)
        assert (plan.exit_code, backup.exit_code) == (0, 17), plan.stderr + backup.stderr
        error = backup.error
        assert error["id"] == "OFF-1701"
        assert login.lacking.format(host=gethostname()) in error["message"]
        assert "workers of a Spark cluster need" in error["hint"]
        assert login.logins() >= 1, "the command itself"
    given.assert_unseen(plan, backup)
