"""Each login of an agent in Kubernetes: the Deployment that the operator makes of a declared Backup carries no secret,
and an agent that is started as the Deployment says logs in, copies and commits.

Played: the API server (in memory) and the kubelet (`tests.pod`). Real: the operator's steps, the agent with its Spark,
the repository, the brokers, the KDC, the identity provider and the judge of signatures.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from offsite.demo.data import BASE_MS, DemoMessage
from offsite.repository.repository import Repository
from offsite.stores.posix_store import PosixStore
from tests import pod
from tests.certificates import make_certificates
from tests.conftest import SecureBroker
from tests.identity_provider import CLIENT, IdentityProvider, serving
from tests.integration.e2e.site import produce_to
from tests.integration.e2e.watch import MARK, OWN, Watch
from tests.integration.kafka.cluster import Cluster
from tests.integration.kafka.test_kerberos import by_keytab, kerberos_site, lines
from tests.integration.kafka.test_msk import KEY_ID, msk_site
from tests.integration.kafka.test_oauth import MODULES, allowed, validating
from tests.java_stores import PASSWORD, store_of, trust_store
from tests.msk_listener import AwsKey
from tests.processes import wait_until
from tests.shared_brokers import running
from tests.unit.operator.kubernetes.kubernetes_home import SECRETS, World, opened_world

FILES = "/mnt/kafka"
"""Where the volume with the files of a login is mounted."""
TEMPLATE = {
    "spec": {
        "volumes": [{"name": "kafka", "secret": {"secretName": "kafka-login", "defaultMode": 0o440}}],
        "containers": [{"name": "agent", "volumeMounts": [{"name": "kafka", "mountPath": FILES}]}],
    }
}
RECORDS = 200
COMMIT_LIMIT_S = 240
pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not pod.unshare(), reason="needs root or user namespaces, and unshare(1)"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """What a person puts into the Secrets. `plain`: brokers that ask for no login. `files`: below `FILES`. `variables`:
    of the account's Secret. `secrets`: what nobody may see, but for `inherited` in the environment of the agent."""

    plain: str
    properties: str
    secrets: Mapping[str, str | bytes]
    files: Mapping[str, Path] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    inherited: frozenset[str] = frozenset()


@contextmanager
def by_token_endpoint(folder: Path, _: SecureBroker) -> Iterator[Login]:
    secret = f"client-secret-{uuid.uuid4().hex}"
    certificates = make_certificates(folder)
    provider = IdentityProvider(certificates.server, lifetime_s=600)
    provider.secrets = {CLIENT: secret}
    with serving(provider), allowed(provider):
        broker = running(folder / "broker", validating(provider, session_s=600))
        with broker as (_, info):
            module = f"{MODULES}.oauthbearer.OAuthBearerLoginModule required"
            yield Login(
                plain=info.bootstrap,
                properties=f"bootstrap.servers={info.listeners['SASL_PLAINTEXT']}\nsecurity.protocol=SASL_PLAINTEXT\n"
                f"sasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url={provider.url}\n"
                f"ssl.truststore.location={FILES}/ca.pem\n"
                f'sasl.jaas.config={module} clientId="{CLIENT}" clientSecret="{secret}";\n',
                secrets={"client's secret": secret},
                files={"ca.pem": certificates.authority},
            )
            assert provider.tokens


@contextmanager
def by_aws(folder: Path, *, is_profile: bool) -> Iterator[Login]:
    """By a profile in a file, or by the variables that open the repository as well."""
    key = AwsKey(secret=f"secret-{uuid.uuid4().hex}", token=f"token-{uuid.uuid4().hex}")
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    keys = dict(zip(names, (KEY_ID, key.secret, key.token), strict=True))
    module = 'IAMLoginModule required awsProfileName="backup";' if is_profile else "IAMLoginModule required;"
    (config := folder / "aws").write_text(
        "[profile backup]\n" + "".join(f"{name.lower()} = {value}\n" for name, value in keys.items())
    )
    common = {"AWS_REGION": "eu-west-1", "AWS_EC2_METADATA_DISABLED": "true"}
    secrets = {"key of AWS": key.secret, "token of AWS": key.token}
    with msk_site(folder, keys={KEY_ID: key}) as site:
        properties = site.properties(module=module).replace(str(site.certificates.authority), f"{FILES}/ca.pem")
        files = {"ca.pem": site.certificates.authority}
        yield Login(
            plain=site.broker.bootstrap,
            properties=properties,
            secrets=secrets,
            files={**files, "config": config} if is_profile else files,
            variables={**common, **({"AWS_CONFIG_FILE": f"{FILES}/config"} if is_profile else keys)},
            inherited=frozenset() if is_profile else frozenset(secrets),
        )
        assert site.judge.passed


def by_profile(folder: Path, _: SecureBroker) -> AbstractContextManager[Login]:
    return by_aws(folder, is_profile=True)


def by_variables(folder: Path, _: SecureBroker) -> AbstractContextManager[Login]:
    return by_aws(folder, is_profile=False)


@contextmanager
def by_kerberos(folder: Path, _: SecureBroker) -> Iterator[Login]:
    with kerberos_site(folder) as realm:
        yield Login(
            plain=realm.broker.bootstrap,
            properties=lines(realm, by_keytab(Path(FILES, "backup.keytab"))),
            secrets={f"key {number}": key for number, key in enumerate(realm.kdc.keys_in(realm.keytab))},
            files={"backup.keytab": realm.keytab, "krb5.conf": realm.kdc.config},
            variables={"KRB5_CONFIG": f"{FILES}/krb5.conf"},
        )
        assert realm.kdc.tickets_of("backup") >= 2, "the agent and a worker of its Spark"


@contextmanager
def by_java_stores(folder: Path, broker: SecureBroker) -> Iterator[Login]:
    files = {
        "trust.p12": trust_store(folder, "PKCS12", broker.certificates.authority),
        "keys.p12": store_of(folder, "PKCS12", broker.certificates.client_store),
    }
    yield Login(
        plain=broker.info.bootstrap,
        properties=f"bootstrap.servers={broker.info.listeners['SSL']}\nsecurity.protocol=SSL\n"
        f"ssl.truststore.location={FILES}/trust.p12\nssl.truststore.password={PASSWORD}\n"
        f"ssl.keystore.location={FILES}/keys.p12\nssl.keystore.password={PASSWORD}\n",
        secrets={"password of the stores": PASSWORD},
        files=files,
    )


Site = Callable[[Path, SecureBroker], AbstractContextManager[Login]]


@pytest.mark.parametrize("site", [by_token_endpoint, by_profile, by_variables, by_kerberos, by_java_stores])
def test_an_agent_logs_in_as_its_deployment_says(
    site: Site, secure_broker: SecureBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place := tmp_path / "site").mkdir()
    (root := tmp_path / "operator").mkdir()
    with site(place, secure_broker) as login, opened_world(root, monkeypatch) as world:
        topic = Cluster(login.plain).make_topic()
        produce_to(login.plain, topic, [DemoMessage(key=b"k", value=b"v" * 100, timestamp_ms=BASE_MS)] * RECORDS)
        secrets = fill_secrets(world, login, mark=tmp_path.name)
        uid = world.make(topics=[topic], agents={"template": TEMPLATE})
        world.look(world.home())
        deployment = world.deployment()
        assert_no_secret(json.dumps(deployment), login)
        watch = Watch(
            secrets=login.secrets,
            inherited=login.inherited,
            given={"password of the stores": "keytool"},
            folders=(),
            mark=tmp_path.name,
        )
        with watch.looking(), running_agent(deployment, secrets, tmp_path, root / "backups") as printed:
            name = world.lows(uid)[-1].beginning.backup
            wait_until(lambda: records_of(root, name) >= RECORDS, "a commit", limit_s=COMMIT_LIMIT_S)
    assert watch.found == set()
    assert "java" in watch.commands, watch.commands
    assert_no_secret(printed.read_text(), login)
    assert "every user" not in printed.read_text()
    for path in (root / "backups").rglob("*"):
        watch.look_at(str(path), path.read_bytes() if path.is_file() else b"")
    assert watch.found == set()


@contextmanager
def running_agent(
    deployment: Mapping[str, Any], secrets: pod.Secrets, folder: Path, repository: Path
) -> Iterator[Path]:
    """What the agent prints."""
    (place := folder / "pod").mkdir()
    with ExitStack() as stack:
        template = deployment["spec"]["template"]
        stack.enter_context(pod.running_pod(template, secrets, folder=place, visible=repository))
        yield place / "printed"


def fill_secrets(world: World, login: Login, *, mark: str) -> pod.Secrets:
    """As a person does. `mark`: of the processes that the test looks at."""
    contents: dict[str, dict[str, bytes]] = {
        "offsite-cluster-shop": {"client.properties": login.properties.encode()},
        "offsite-account-backups": {
            name: value.encode() for name, value in {**login.variables, MARK: mark, OWN: mark}.items()
        },
        "kafka-login": {name: file.read_bytes() for name, file in login.files.items()},
    }
    metadata = {"name": "kafka-login", "labels": {"offsite.dev/for-agents": "true"}}
    world.cluster.create(SECRETS, {"metadata": metadata, "data": {}})
    encoded = {
        secret: {name: base64.b64encode(value).decode() for name, value in data.items()}
        for secret, data in contents.items()
    }
    for secret, data in encoded.items():
        world.cluster.patch(f"{SECRETS}/{secret}", {"data": data})
    return encoded


def records_of(root: Path, name: str) -> int:
    """The records that the newest commit holds; 0 without one."""
    repository = Repository.open(PosixStore(root=root / "backups"))
    if name not in repository.backups():
        return 0
    return sum(segment.records for segment in repository.backup(name).state().all_segments())


def assert_no_secret(text: str, login: Login) -> None:
    for name, secret in login.secrets.items():
        forms = [secret] if isinstance(secret, str) else [secret.hex(), base64.b64encode(secret).decode()]
        assert not [form for form in forms if form in text], name
