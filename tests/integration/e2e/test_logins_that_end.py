"""A run that follows while its tokens and sessions end, again and again: nothing is lost to it, and nobody is asked to
log in by hand. With `make soak` for ten minutes, over two lives of a token; with `make test` over lives of seconds."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from offsite.sandbox import SandboxInfo
from tests.certificates import make_certificates
from tests.identity_provider import CLIENT, SECRET, IdentityProvider, serving
from tests.integration.e2e.command import start, succeed
from tests.integration.e2e.test_follow import head_commit, make, producing
from tests.integration.kafka.cluster import Cluster
from tests.integration.kafka.test_oauth import MODULES, allowed, validating
from tests.processes import wait_until
from tests.shared_brokers import running

SHORT_S, LONG_S = 30, 600


@pytest.fixture(params=[SHORT_S, pytest.param(LONG_S, marks=[pytest.mark.soak, pytest.mark.timeout(1200)])])
def run_s(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def provider(tmp_path: Path, run_s: int) -> Iterator[IdentityProvider]:
    """Tokens of a life that ends twice during the run."""
    provider = IdentityProvider(make_certificates(tmp_path).server, lifetime_s=run_s / 3)
    with serving(provider):
        yield provider


@pytest.fixture
def broker(provider: IdentityProvider, tmp_path: Path, run_s: int) -> Iterator[SandboxInfo]:
    """Its sessions end more often than tokens."""
    with ExitStack() as stack:
        stack.enter_context(allowed(provider))
        yield stack.enter_context(running(tmp_path / "broker", validating(provider, session_s=run_s / 8)))[1]


def client_properties(folder: Path, broker: SandboxInfo, provider: IdentityProvider, *, secret: str) -> Path:
    (file := folder / f"{secret}.properties").write_text(
        f"bootstrap.servers={broker.listeners['SASL_PLAINTEXT']}\n"
        "security.protocol=SASL_PLAINTEXT\n"
        "sasl.mechanism=OAUTHBEARER\n"
        f"sasl.oauthbearer.token.endpoint.url={provider.url}\n"
        f"ssl.truststore.location={folder / 'authority.pem'}\n"
        f"sasl.jaas.config={MODULES}.oauthbearer.OAuthBearerLoginModule required "
        f'clientId="{CLIENT}" clientSecret="{secret}";\n'
    )
    file.chmod(0o600)
    return file


def test_a_run_that_follows_outlives_its_tokens_and_sessions(
    broker: SandboxInfo, provider: IdentityProvider, tmp_path: Path, run_s: int
) -> None:
    pattern, topics = make(Cluster(broker.bootstrap), 2)
    config = client_properties(tmp_path, broker, provider, secret=SECRET)
    wrong = client_properties(tmp_path, broker, provider, secret="hunter2")
    succeed("init", repo := tmp_path / "repo")
    names = ["--repo", str(repo), "--backup", "b"]
    begun_s = time.monotonic()
    with producing(broker.bootstrap, topics):
        ends = ["--kafka-config", config, "--topics", pattern, "--interval", "500ms", "-o", "jsonl"]
        following = start("backup", "run", "--follow", *names, *ends)
        said = list[str]()
        threads = [
            threading.Thread(target=lambda pipe=pipe: said.extend(pipe), daemon=True)
            for pipe in (following.stdout, following.stderr)
        ]
        for thread in threads:
            thread.start()
        wait_until(lambda: head_commit(names) >= 2, "two commits")
        refused = start("backup", "run", *names, "--kafka-config", wrong, "--topics", pattern)
        _, err = refused.communicate(timeout=60)
        assert refused.returncode == 17, err
        assert err.count("OFF-1706") == 1
        assert "hunter2" not in err
        while (left_s := begun_s + run_s - time.monotonic()) > 0:
            assert following.poll() is None, "".join(said)
            time.sleep(min(left_s, 1))
        before = head_commit(names)
        wait_until(lambda: head_commit(names) > before, "another commit")
        following.send_signal(signal.SIGTERM)
        assert following.wait(60) == 0, "".join(said)
    assert len(provider.tokens) >= 3
    lost = [line for line in said if "OFF-15" in line or "OFF-17" in line]
    assert not lost
    succeed("backup", "run", *names, "--kafka-config", config)
    assert succeed("verify", *names, "--against", broker.bootstrap)["against"]["verified"]
    succeed(
        *("restore", "run", *names, "--kafka-config", config, "--yes"),
        *(word for topic in topics for word in ("--rename", f"{topic}={topic}-again")),
    )
