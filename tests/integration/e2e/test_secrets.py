"""A password, a key, a token and the secret that fetches one, and the passwords of stores of Java: nobody sees them
while a backup and a restore run, and they are nowhere afterwards. Other logins are in `test_login_files`.

Looked at: command lines and environments of all processes, files of Spark (scratch, work folders, event log), the
objects of the repository, log files, what commands print. The keys of a store are given in the environment, where
children of the command inherit them; a cluster's processes must not have even those.
"""

from __future__ import annotations

import base64
import json
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from offsite.demo.data import BASE_MS, DemoMessage
from offsite.stores.open_store import open_store
from tests.conftest import SecureBroker
from tests.identity_provider import CLIENT, IdentityProvider, serving
from tests.integration.e2e.command import started
from tests.integration.e2e.site import new_name, produce_to
from tests.integration.e2e.watch import MARK, OWN, Watch
from tests.integration.kafka.cluster import Cluster
from tests.java_stores import PASSWORD, store_of, trust_store
from tests.s3_servers import ENVIRONMENT, moto_server
from tests.spark_cluster import standalone_cluster

MESSAGES = [DemoMessage(key=b"%d" % n, value=b"v" * 500, timestamp_ms=BASE_MS + n) for n in range(2000)]

pytestmark = pytest.mark.xdist_group("spark-cluster")


@pytest.fixture
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="s-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def s3() -> Iterator[str]:
    """A place for a repository."""
    bucket = f"secrets-{uuid.uuid4().hex[:12]}"
    with moto_server() as endpoint:
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{bucket}", method="PUT"), timeout=30).close()
        yield f"s3://{bucket}/prefix?endpoint={endpoint}"


@pytest.fixture
def provider(secure_broker: SecureBroker) -> Iterator[IdentityProvider]:
    """Gives one token of an end far away, for a secret of its own."""
    provider = IdentityProvider(secure_broker.certificates.server, lifetime_s=3600)
    provider.secrets = {CLIENT: f"client-secret-{uuid.uuid4().hex}"}
    provider.only_token = unsecured_token("alice")
    with serving(provider):
        yield provider


ON_CLUSTER = (pytest.mark.soak, pytest.mark.timeout(900))
SPARKS = [pytest.param("local", marks=pytest.mark.soak), pytest.param("cluster", marks=ON_CLUSTER)]


@pytest.fixture(params=SPARKS)
def spark(request: pytest.FixtureRequest, tmp_path: Path, scratch: Path) -> Iterator[list[str]]:
    with chosen_spark(request.param, tmp_path, {MARK: scratch.name}) as options:
        yield options


@contextmanager
def chosen_spark(kind: str, folder: Path, environment: Mapping[str, str]) -> Iterator[list[str]]:
    """The options that choose a Spark. A cluster's processes have `environment`, and its workers log their events."""
    if kind == "local":
        yield []
        return
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        with standalone_cluster(folder) as url:
            # otherwise secrets stay where they are, and no restore runs
            settings = ("spark.driver.host=127.0.0.1", "spark.offsite.strangers=allowed")
            yield ["--spark-master", url, *(word for setting in settings for word in ("--spark-conf", setting))]


def test_no_secret_is_seen_while_it_is_used(  # noqa: PLR0917  # fixtures
    secure_broker: SecureBroker, provider: IdentityProvider, s3: str, spark: list[str], tmp_path: Path, scratch: Path
) -> None:
    """The backup logs in with the password, over TLS with stores of Java, whose password keytool is given; the restore
    with a token that workers fetch by the client's secret; the last command has a token of its own, and fails, with a
    traceback."""
    store_keys = {name: f"{name}-{uuid.uuid4().hex}" for name in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")}
    password, token = secure_broker.users["alice"], unsecured_token("alice")
    watch = Watch(
        secrets=store_keys
        | {"password": password, "token": token}
        | {"client's secret": provider.secrets[CLIENT], "fetched token": provider.only_token}
        | {"password of the stores": PASSWORD},
        inherited=frozenset(store_keys),
        given={"password of the stores": "keytool"},
        folders=(scratch, *([tmp_path / "worker-0" / "work", tmp_path / "events"] if spark else [])),
        mark=scratch.name,
    )
    environment = {
        **ENVIRONMENT,
        **store_keys,
        **watched_environment(tmp_path, scratch, repository=s3),
    }
    topic = Cluster(secure_broker.info.bootstrap).make_topic()
    produce_to(secure_broker.info.bootstrap, topic, MESSAGES)
    config = client_properties(secure_broker, tmp_path, password=password, token=token, provider=provider)
    backup = ["--kafka-config", config["password"], "--backup", "b", "--topics", topic]
    restore = ["--backup", "b", "--rename", f"{topic}={new_name(topic)}", "--verbose", "--kafka-config"]
    with watch.looking():
        done = [
            started(*command, environment=environment)
            for command in (
                ["init"],
                ["backup", "run", *backup, *spark, "--verbose"],
                ["restore", "run", *restore, config["client"], *spark, "--yes"],
                ["restore", "plan", *restore, config["token"]],
            )
        ]
    assert [each.exit_code for each in done] == [0, 0, 0, 14], [each.stderr for each in done]
    assert done[1].result["records"] >= len(MESSAGES)  # other tests may have left schemas, which come along
    assert done[2].result["verified"] is True
    assert "Traceback" in done[3].stderr
    assert provider.tokens
    for each in done:
        watch.look_at("what a command prints", (each.stdout + each.stderr).encode())
    watch.look_at("the log", (tmp_path / "log").read_bytes())
    store = open_store(s3, environment=environment)
    for info in store.list(""):
        watch.look_at(info.key, store.get(info.key) or b"")
    assert watch.found == set()
    assert watch.seen_inherited == {*store_keys, "password of the stores"}, "who looks sees what is there"
    assert {"java", "keytool"} <= watch.commands, watch.commands
    assert len(watch.commands) > 1, watch.commands
    assert "spark.log" in watch.files, watch.files
    assert not spark or any((tmp_path / "events").iterdir())


def watched_environment(folder: Path, scratch: Path, *, repository: str) -> dict[str, str]:
    """The variables of commands, all of whose processes and files in `folder` and `scratch` are watched."""
    return {
        MARK: scratch.name,
        OWN: scratch.name,
        "TMPDIR": str(scratch),
        "SPARK_CONF_DIR": str(event_log(folder)),
        "OFFSITE_REPO": repository,
        "OFFSITE_LOG_FILE": str(folder / "log"),
    }


def event_log(folder: Path) -> Path:
    """A configuration folder of Spark, as an operator has one, that turns its event log on; local mode ignores it."""
    (folder / "events").mkdir()
    (folder / "conf").mkdir()
    lines = f"spark.eventLog.enabled true\nspark.eventLog.dir file://{folder}/events\nspark.executor.memory 512m\n"
    (folder / "conf" / "spark-defaults.conf").write_text(lines)
    return folder / "conf"


def client_properties(
    broker: SecureBroker, folder: Path, *, password: str, token: str, provider: IdentityProvider
) -> dict[str, Path]:
    """A file for each way of logging in."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    by_token = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    client = f'clientId="{CLIENT}" clientSecret="{provider.secrets[CLIENT]}"'
    logins = {
        "password": f'sasl.mechanism=PLAIN\nsasl.jaas.config={module} required username="alice" password="{password}";',
        "token": f"sasl.mechanism=OAUTHBEARER\noffsite.oauth.token={token}",
        "client": f"sasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url={provider.url}\n"
        f"ssl.truststore.location={broker.certificates.authority}\nsasl.jaas.config={by_token} required {client};",
    }
    stores = {
        "truststore": trust_store(folder, "PKCS12", broker.certificates.authority),
        "keystore": store_of(folder, "PKCS12", broker.certificates.client_store),
    }
    by_tls = "".join(f"ssl.{name}.location={store}\nssl.{name}.password={PASSWORD}\n" for name, store in stores.items())
    for name, login in logins.items():
        protocol = "SASL_SSL" if name == "password" else "SASL_PLAINTEXT"
        head = f"bootstrap.servers={broker.info.listeners[protocol]}\nsecurity.protocol={protocol}\n"
        (folder / f"{name}.properties").write_text(head + by_tls * (name == "password") + login)
    return {name: folder / f"{name}.properties" for name in logins}


def unsecured_token(user: str) -> str:
    """A JSON Web Signature without a signature, which the sandbox takes."""
    parts = ({"alg": "none"}, {"sub": user, "iat": time.time(), "exp": time.time() + 3600, "jti": uuid.uuid4().hex})
    head, body = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return f"{head}.{body}."
