"""What tests of every layer share: real brokers, each started once per test process and always ended with it.

Brokers are shared by all tests of the process, so each test makes its own topics. A test that stops, kills or fills a
broker starts its own with `start_sandbox`.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import pytest

from offsite.sandbox import Sandbox, SandboxInfo, Security, Settings, Tls
from tests.certificates import Certificates, make_certificates
from tests.shared_spark import end_shared_spark

os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="offsite-tests-state-")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)

hypothesis.settings.register_profile("offsite", deadline=None)  # a busy machine is no failure
hypothesis.settings.load_profile("offsite")

USERS = {"admin": "admin-secret", "alice": "alice-secret"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SecureBroker:
    """`info.listeners` has PLAINTEXT, SASL_PLAINTEXT, SSL and SASL_SSL; `users` may log in by PLAIN and SCRAM."""

    info: SandboxInfo
    certificates: Certificates
    users: dict[str, str]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxInfo]:
    with running(tmp_path_factory.mktemp("broker")) as (_, info):
        yield info


@pytest.fixture(scope="session")
def second_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxInfo]:
    with running(tmp_path_factory.mktemp("second-broker")) as (_, info):
        yield info


@pytest.fixture(scope="session")
def secure_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    folder = tmp_path_factory.mktemp("secure-broker")
    certificates = make_certificates(folder)
    tls = Tls(key_store=certificates.server, trust_store=certificates.authority)
    with running(folder / "broker", Settings(security=Security(users=USERS, tls=tls))) as (_, info):
        yield SecureBroker(info=info, certificates=certificates, users=USERS)


@pytest.fixture(scope="session")
def three_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A cluster whose brokers may be killed, frozen and started again one by one; who does so mends it again."""
    with running(tmp_path_factory.mktemp("three-brokers"), Settings(brokers=3)) as (sandbox, _):
        yield sandbox


@pytest.fixture(scope="session", autouse=True)
def ended_spark() -> Iterator[None]:
    yield
    end_shared_spark()


StartSandbox = Callable[..., tuple[Sandbox, SandboxInfo]]


@pytest.fixture
def start_sandbox(tmp_path: Path) -> Iterator[StartSandbox]:
    """`start_sandbox(settings=…, name=…)`: a broker of the test's own, and its `Sandbox`."""
    with ExitStack() as brokers:

        def start(*, settings: Settings = Settings(), name: str = "own-broker") -> tuple[Sandbox, SandboxInfo]:
            return brokers.enter_context(running(tmp_path / name, settings))

        yield start


@contextmanager
def running(folder: Path, settings: Settings = Settings()) -> Iterator[tuple[Sandbox, SandboxInfo]]:
    sandbox = Sandbox(folder)
    try:
        yield sandbox, sandbox.start(settings=settings, owned=True)
    finally:
        sandbox.stop()
