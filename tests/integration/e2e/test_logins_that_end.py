"""A run that follows while its tokens, tickets or keys and its sessions end, again and again: nothing is lost to it,
and nobody is asked to log in by hand. Ten minutes, over two lives."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from offsite.demo.data import BASE_MS, DemoMessage
from offsite.sandbox import SandboxInfo
from tests.certificates import make_certificates
from tests.identity_provider import CLIENT, SECRET, IdentityProvider, serving
from tests.integration.e2e.command import start, started, succeed
from tests.integration.e2e.site import produce_to
from tests.integration.e2e.test_follow import head_commit, make
from tests.integration.kafka.cluster import Cluster
from tests.integration.kafka.test_kerberos import by_keytab, kerberos_site, lines
from tests.integration.kafka.test_msk import msk_site
from tests.integration.kafka.test_oauth import MODULES, allowed, validating
from tests.msk_listener import AwsKey
from tests.processes import wait_until
from tests.s3_servers import ENVIRONMENT
from tests.shared_brokers import running

LONG_S = 600
LIVES, SESSIONS = 3, 8
"""Of tokens and of sessions, in one run."""
WRONG_LIMIT_S = 10
GRACE_S = 5
"""Between the end of a key of AWS and the moment from which it opens nothing any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A broker, and the client.properties with the right and with a wrong secret. `wrong_id`: the error of the wrong
    one. `renewals`: how often there was a new token, ticket or key. `secrets`: what is printed nowhere."""

    broker: SandboxInfo
    right: str
    wrong: str
    wrong_id: str
    renewals: Callable[[], int]
    secrets: tuple[str, ...] = ()


@contextmanager
def oauth_site(folder: Path, run_s: float) -> Iterator[Site]:
    certificates = make_certificates(folder)
    provider = IdentityProvider(certificates.server, lifetime_s=run_s / LIVES)
    with ExitStack() as stack:
        stack.enter_context(serving(provider))
        stack.enter_context(allowed(provider))
        settings = validating(provider, session_s=run_s / SESSIONS)
        _, broker = stack.enter_context(running(folder / "broker", settings))

        def properties(secret: str) -> str:
            module = f"{MODULES}.oauthbearer.OAuthBearerLoginModule required"
            return (
                f"bootstrap.servers={broker.listeners['SASL_PLAINTEXT']}\n"
                "security.protocol=SASL_PLAINTEXT\n"
                "sasl.mechanism=OAUTHBEARER\n"
                f"sasl.oauthbearer.token.endpoint.url={provider.url}\n"
                f"ssl.truststore.location={certificates.authority}\n"
                f'sasl.jaas.config={module} clientId="{CLIENT}" clientSecret="{secret}";\n'
            )

        yield Site(
            broker=broker,
            right=properties(SECRET),
            wrong=properties("hunter2"),
            wrong_id="OFF-1706",
            renewals=lambda: len(provider.tokens),
            secrets=(SECRET, "hunter2"),
        )


PROCESS = """
import datetime, hashlib, json, sys, time

word, life_s = sys.argv[1], float(sys.argv[2])
number = int(time.time() / life_s)
end = datetime.datetime.fromtimestamp((number + 1) * life_s + {grace_s}, datetime.UTC)
secret = hashlib.sha256(f"{{word}} {{number}}".encode()).hexdigest()
key = {{"Version": 1, "AccessKeyId": f"ASIA{{number}}", "SecretAccessKey": secret, "SessionToken": f"token {{number}}"}}
print(json.dumps({{**key, "Expiration": end.isoformat()}}))
"""
"""What a profile of AWS may name: a program that hands out keys. These are of a span of time each."""


class ShortKeys(Mapping[str, AwsKey]):
    """The keys that `PROCESS` hands out, while they are good."""

    def __init__(self, word: str, life_s: float) -> None:
        self._word, self._life_s = word, life_s

    def __getitem__(self, access_key: str) -> AwsKey:
        number = int(access_key.removeprefix("ASIA"))
        if not number * self._life_s <= time.time() <= (number + 1) * self._life_s + GRACE_S:
            raise KeyError(access_key)
        secret = hashlib.sha256(f"{self._word} {number}".encode()).hexdigest()
        return AwsKey(secret=secret, token=f"token {number}")

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


@contextmanager
def iam_site(folder: Path, run_s: float) -> Iterator[Site]:
    (program := folder / "keys.py").write_text(PROCESS.format(grace_s=GRACE_S))
    profiles, life_s = {"backup": "right", "stranger": "wrong"}, run_s / LIVES / 2  # so that each life sees an end
    (folder / "aws").write_text(
        "".join(
            f"[profile {profile}]\ncredential_process = {sys.executable} -S {program} {word} {life_s}\n"
            for profile, word in profiles.items()
        )
    )
    keys = ShortKeys("right", life_s)
    with pytest.MonkeyPatch.context() as patch, msk_site(folder, keys=keys, session_s=run_s / SESSIONS) as site:
        for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            patch.delenv(name, raising=False)
        patch.setenv("AWS_CONFIG_FILE", str(folder / "aws"))
        patch.setenv("AWS_REGION", ENVIRONMENT["AWS_REGION"])
        site.judge.region = ENVIRONMENT["AWS_REGION"]  # 127.0.0.1 names no region, and agents have that of their store

        def properties(profile: str) -> str:
            return site.properties(module=f'IAMLoginModule required awsProfileName="{profile}";')

        yield Site(
            broker=site.broker,
            right=properties("backup"),
            wrong=properties("stranger"),
            wrong_id="OFF-1701",
            renewals=lambda: len(set(site.judge.passed)),
        )
        assert site.listener.hung_up == 0, "requests behind the end of a session"


@contextmanager
def gssapi_site(folder: Path, run_s: float) -> Iterator[Site]:
    ends = {"connections.max.reauth.ms": str(int(run_s / SESSIONS * 1000))}
    with kerberos_site(folder, properties=ends, ticket_s=int(run_s / LIVES)) as realm:
        stale = realm.kdc.add("stale")
        realm.kdc.change_key("stale")
        yield Site(
            broker=realm.broker,
            right=lines(realm, by_keytab(realm.keytab)),
            wrong=lines(realm, by_keytab(stale, "stale")),
            wrong_id="OFF-1701",
            renewals=lambda: realm.kdc.tickets_of("backup"),
        )


SITES: Mapping[str, Callable[[Path, float], AbstractContextManager[Site]]] = {
    "oauth": oauth_site,
    "iam": iam_site,
    "kerberos": gssapi_site,
}


LONG_RUN = (pytest.mark.soak, pytest.mark.timeout(1800))
RUNS = [pytest.param(name, LONG_S, marks=LONG_RUN) for name in SITES]


@pytest.fixture
def site(login: str, run_s: int, tmp_path: Path) -> Iterator[Site]:
    with SITES[login](tmp_path, run_s) as site:
        yield site


@pytest.mark.parametrize(("login", "run_s"), RUNS)
def test_a_run_that_follows_outlives_its_logins(site: Site, tmp_path: Path, run_s: int) -> None:
    pattern, topics = make(Cluster(site.broker.bootstrap), 2)
    right, wrong = write(tmp_path / "right", site.right), write(tmp_path / "wrong", site.wrong)
    succeed("init", repo := tmp_path / "repo")
    names = ["--repo", str(repo), "--backup", "b"]
    ends = ["--kafka-config", str(right), "--topics", pattern, "--interval", "2s", "-o", "jsonl"]
    with trickling(site.broker.bootstrap, topics), started_follower(*names, *ends) as (following, printed):
        wait_until(lambda: head_commit(names) >= 2, "two commits", limit_s=180)
        refusal = assert_refused(site, wrong, *names, "--topics", pattern)
        begun_s, renewals = time.monotonic(), [site.renewals()]
        for life in range(1, LIVES + 1):
            while (left_s := begun_s + life * run_s / LIVES - time.monotonic()) > 0:
                assert following.poll() is None, "".join(printed)
                time.sleep(min(left_s, 1))
            renewals.append(site.renewals())
        before = head_commit(names)
        wait_until(lambda: head_commit(names) > before, "another commit", limit_s=180)
        following.send_signal(signal.SIGTERM)
        assert following.wait(60) == 0, "".join(printed)
    assert renewals == sorted(set(renewals)), "a new one in each life"
    assert not [line for line in printed if "OFF-15" in line or "OFF-17" in line]
    assert not [secret for secret in site.secrets for line in (*printed, refusal) if secret in line]
    succeed("backup", "run", *names, "--kafka-config", right)
    assert succeed("verify", *names, "--against", site.broker.bootstrap)["against"]["verified"]
    renamed = [word for topic in topics for word in ("--rename", f"{topic}={topic}-again")]
    assert succeed("restore", "run", *names, "--kafka-config", right, "--yes", *renamed)["verified"] is True


@contextmanager
def trickling(bootstrap: str, topics: list[str]) -> Iterator[None]:
    """A few records go into the topics until the block ends: the run that follows always has something to do."""
    ended = threading.Event()

    def produce() -> None:
        while not ended.wait(0.5):
            for topic in topics:
                produce_to(bootstrap, topic, [DemoMessage(key=b"k", value=b"v" * 100, timestamp_ms=BASE_MS)] * 20)

    thread = threading.Thread(target=produce, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(60)


@contextmanager
def started_follower(*words: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A run that follows, and what it prints. Nothing of it is left behind the block."""
    following, printed = start("backup", "follow", *words), list[str]()
    for pipe in (following.stdout, following.stderr):
        threading.Thread(target=printed.extend, args=(pipe,), daemon=True).start()
    try:
        yield following, printed
    finally:
        with suppress(ProcessLookupError):
            os.killpg(following.pid, signal.SIGKILL)
        following.wait(60)


def write(file: Path, text: str) -> Path:
    file.write_text(text)
    file.chmod(0o600)
    return file


def assert_refused(site: Site, config: Path, *words: str) -> str:
    """A wrong secret is one clear error, and soon. Returns what the commands printed. A plan that cannot read its
    settings shows how long this busy machine takes to start a command; one that runs starts Spark meanwhile."""
    unread = started("backup", "plan", *words, "--kafka-config", config.with_name("none"))
    planned = started("backup", "plan", *words, "--kafka-config", config)
    run = started("backup", "run", *words, "--kafka-config", config)
    exit_codes = [ended.exit_code for ended in (unread, planned, run)]
    assert exit_codes == [2, 17, 17], unread.stderr + planned.stderr + run.stderr
    assert planned.took_s - unread.took_s < WRONG_LIMIT_S
    assert [ended.stderr.count(site.wrong_id) for ended in (planned, run)] == [1, 1], planned.stderr + run.stderr
    return "".join(ended.stdout + ended.stderr for ended in (planned, run))
