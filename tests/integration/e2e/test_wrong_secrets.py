"""A wrong secret of each login is one clear error of a command, and soon.

How long a command takes says more of a busy machine than of the command. So what is counted is what it does: how often
it logs in, and for how long it waits of its own will. Its own processor time is limited as well; the time on the clock
is printed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from offsite.sandbox import SandboxSettings, Security
from offsite.sandbox.settings import Tls
from tests.certificates import make_certificates
from tests.identity_provider import CLIENT, IdentityProvider, serving
from tests.integration.e2e import command
from tests.integration.kafka.test_kerberos import by_keytab, kerberos_site, lines
from tests.integration.kafka.test_msk import KEY_ID, msk_site
from tests.integration.kafka.test_oauth import MODULES, allowed, validating
from tests.java_stores import PASSWORD, store_of, trust_store
from tests.msk_listener import AwsKey
from tests.shared_brokers import running

WRONG = "hunter2-and-wrong"
LIMIT_S = 10
LOGINS_MAX = 2
"""Of one command: the first, and one more where another could pass."""
MEASURED = """
import atexit, json, os, resource, sys, time

waits, sleep = [], time.sleep

def slept(seconds):
    frame, files = sys._getframe(1), []
    while frame is not None:
        files.append(frame.f_code.co_filename)
        frame = frame.f_back
    if any("/offsite/kafka/" in file or file.endswith("/backup/outages.py") for file in files):
        waits.append(seconds)
    sleep(seconds)

def report():
    used = resource.getrusage(resource.RUSAGE_SELF)
    figures = {"waits_s": sum(waits), "processor_s": used.ru_utime + used.ru_stime}
    with open(os.environ["OFFSITE_TEST_FIGURES"], "w") as file:
        json.dump(figures, file)

time.sleep = slept
atexit.register(report)
from offsite.cli.main import main
main()
"""
"""The command, with the waits counted that a login could have made longer. Waits for Spark do not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Brokers, and a client.properties with a wrong secret. `logins`: how often somebody tried so far. `error_id`: of
    the error; `exit_code`: of the command."""

    properties: str
    logins: Callable[[], int]
    error_id: str = "OFF-1701"
    exit_code: int = 17


@contextmanager
def by_token_endpoint(folder: Path) -> Iterator[Site]:
    certificates = make_certificates(folder)
    provider = IdentityProvider(certificates.server)
    with serving(provider), allowed(provider):
        broker = running(folder / "broker", validating(provider, session_s=600))
        with broker as (_, info):
            module = f"{MODULES}.oauthbearer.OAuthBearerLoginModule required"
            yield Site(
                properties=f"bootstrap.servers={info.listeners['SASL_PLAINTEXT']}\nsecurity.protocol=SASL_PLAINTEXT\n"
                f"sasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url={provider.url}\n"
                f"ssl.truststore.location={certificates.authority}\n"
                f'sasl.jaas.config={module} clientId="{CLIENT}" clientSecret="{WRONG}";\n',
                logins=lambda: len(provider.asked),
                error_id="OFF-1706",
            )


@contextmanager
def by_aws(folder: Path) -> Iterator[Site]:
    with (
        msk_site(folder, keys={KEY_ID: AwsKey(secret="right")}) as site,
        pytest.MonkeyPatch.context() as patch,
    ):
        variables = {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": WRONG, "AWS_REGION": "eu-west-1"}
        for name, value in variables.items():
            patch.setenv(name, value)
        yield Site(properties=site.properties(), logins=lambda: len(site.listener.verdicts))


@contextmanager
def by_kerberos(folder: Path) -> Iterator[Site]:
    with kerberos_site(folder) as realm:
        stale = realm.kdc.add("stale")
        realm.kdc.change_key("stale")
        yield Site(properties=lines(realm, by_keytab(stale, "stale")), logins=lambda: realm.kdc.tickets_of("stale"))


@contextmanager
def by_java_stores(folder: Path) -> Iterator[Site]:
    """The store opens, and its certificate is of an authority that the brokers do not know."""
    (strange := folder / "strange").mkdir()
    certificates, stranger = make_certificates(folder), make_certificates(strange)
    tls = Tls(key_store=certificates.server, trust_store=certificates.authority)
    settings = SandboxSettings(
        security=Security(users={}, tls=tls), properties={"listener.name.ssl.ssl.client.auth": "required"}
    )
    trust = trust_store(folder, "JKS", certificates.authority)
    keys = store_of(folder, "PKCS12", stranger.client_store)
    with running(folder / "broker", settings) as (_, info):
        yield Site(
            properties=f"bootstrap.servers={info.listeners['SSL']}\nsecurity.protocol=SSL\n"
            f"ssl.truststore.location={trust}\nssl.truststore.password={PASSWORD}\n"
            f"ssl.keystore.location={keys}\nssl.keystore.password={PASSWORD}\n",
            logins=lambda: _refused_handshakes(folder / "broker"),
        )


def _refused_handshakes(folder: Path) -> int:
    """As the broker's log tells."""
    return (folder / "kafka.log").read_text().count("SSL handshake failed")


Sites = Callable[[Path], AbstractContextManager[Site]]
SITES = [by_token_endpoint, by_aws, by_kerberos, by_java_stores]


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("site", SITES)
def test_a_wrong_secret_is_one_error_after_few_logins_and_short_waits(site: Sites, tmp_path: Path) -> None:
    (place := tmp_path / "site").mkdir()
    with site(place) as wrong:
        (config := tmp_path / "client.properties").write_text(wrong.properties)
        repository = ("--repo", tmp_path / "repository")
        assert command.started("init", *repository).exit_code == 0
        for words in (
            ("doctor", "--kafka-config", config, *repository),
            ("backup", "plan", "--kafka-config", config, *repository, "--backup", "b", "--topics", "*"),
            ("backup", "run", "--kafka-config", config, *repository, "--backup", "b", "--topics", "*"),
        ):
            before = wrong.logins()
            done, figures = measured(tmp_path, *words)
            tried = wrong.logins() - before
            clock = f"{done.took_s:.1f} s on the clock, load {os.getloadavg()[0]:.1f}"
            sys.stdout.write(f"{' '.join(words[:2])}: {clock}, {figures}, {tried} logins\n")
            said = done.stdout + done.stderr
            assert done.exit_code == wrong.exit_code, said
            assert said.count(wrong.error_id) == 1, said
            assert WRONG not in said
            assert 1 <= tried <= LOGINS_MAX, said
            assert figures["waits_s"] + figures["processor_s"] < LIMIT_S, figures


def measured(folder: Path, *words: object) -> tuple[command.Finished, dict[str, Any]]:
    """The command, and its figures: seconds that it waited and computed."""
    figures = folder / "figures"
    environment = {"OFFSITE_TEST_FIGURES": str(figures)}
    done = command.finished([sys.executable, "-c", MEASURED, *map(str, words), "-o", "json"], environment)
    return done, json.loads(figures.read_text())
