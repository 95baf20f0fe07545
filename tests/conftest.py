"""What all tests share: real brokers, each started once per test process and always ended with it, and the
order in which files run (`families`).

Brokers are shared by all tests of the process, so each test makes its own topics. A test that stops, kills or fills a
broker starts its own with `start_sandbox`.
"""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from offsite.sandbox import Sandbox, SandboxInfo, SandboxSettings, Security, Tls
from tests import families, soak_parts
from tests.certificates import Certificates, make_certificates
from tests.examples import examples
from tests.shared_brokers import QUIET, Running, end_shared, running, shared, started
from tests.shared_spark import end_shared_spark

os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="offsite-tests-state-")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)

hypothesis.settings.register_profile(
    "offsite",
    max_examples=examples(100).max_examples,
    deadline=None,  # a busy machine is no failure
)
hypothesis.settings.load_profile("offsite")

gc.disable()  # until all tests are collected: what is made up to there stays (see `pytest_collection_finish`)

os.fsync = os.fstat  # type: ignore[assignment]  # no test loses power; it still has to be an open file

USERS = {"admin": "admin-secret", "alice": "alice-secret", "dora": "dora-secret", "emma": "emma-secret"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SecureBroker:
    """`info.listeners` has PLAINTEXT, SASL_PLAINTEXT, SSL and SASL_SSL; `users` may log in by PLAIN and SCRAM."""

    info: SandboxInfo
    certificates: Certificates
    users: dict[str, str]


SHARED_IN = {"three_brokers": families.THREE_BROKERS, "secure_broker": families.USERS}
"""Fixtures that only files of a family may use: what is behind them ends with the family."""

_paired: set[str] = set()
"""Files that take the second broker."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> SandboxInfo:
    return shared("broker", lambda: started(tmp_path_factory.mktemp("broker"))).info


@pytest.fixture(scope="module")
def second_broker(tmp_path_factory: pytest.TempPathFactory) -> SandboxInfo:
    return shared("second_broker", lambda: started(tmp_path_factory.mktemp("second-broker"))).info


@pytest.fixture(scope="module")
def secure_broker(tmp_path_factory: pytest.TempPathFactory) -> SecureBroker:
    def start() -> Running:
        folder = tmp_path_factory.mktemp("secure-broker")
        certificates = make_certificates(folder)
        tls = Tls(key_store=certificates.server, trust_store=certificates.authority)
        settings = replace(QUIET, security=Security(users=USERS, tls=tls))
        return started(folder / "broker", settings, more=certificates)

    found = shared("secure_broker", start)
    return SecureBroker(info=found.info, certificates=found.more, users=USERS)


@pytest.fixture(scope="module")
def three_brokers(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    """A cluster whose brokers may be killed, frozen and started again one by one; who does so mends it again."""
    settings = SandboxSettings(brokers=3)
    return shared("three_brokers", lambda: started(tmp_path_factory.mktemp("three-brokers"), settings)).sandbox


@pytest.fixture(scope="session", autouse=True)
def ended_with_the_session() -> Iterator[None]:
    """However that ends."""
    yield
    end_shared()
    end_shared_spark()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadfile` keeps families together as well, and gives one process the files without brokers first."""
    from xdist.scheduler import LoadFileScheduling

    class ByFamily(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return families.unit_of(nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            with_brokers = self.nodes.index(node) < max(1, len(self.nodes) - families.COMPUTING)
            unit = families.next_unit(self.workqueue, with_brokers=with_brokers)
            self.workqueue.move_to_end(unit, last=False)
            super()._assign_work_unit(node)

    return ByFamily(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", choices=list(soak_parts.PARTS), help="only this part of the long tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/worlds/"):
            item.add_marker("worlds")
    long = [item.nodeid for item in items if item.get_closest_marker("soak")]
    if lost := next(soak_parts.strays(long), None):
        raise pytest.UsageError(f"{lost} is a long test of no part (tests/soak_parts.py)")
    if part := config.getoption("part"):
        config.hook.pytest_deselected(items=[item for item in items if soak_parts.part_of(item.nodeid) != part])
        items[:] = [item for item in items if soak_parts.part_of(item.nodeid) == part]
    fixtures = {item.nodeid: getattr(item, "fixturenames", ()) for item in items}
    if stray := next(families.strays(SHARED_IN, fixtures), None):
        raise pytest.UsageError(stray)
    _paired.update(families.with_second_broker(fixtures))
    items.sort(key=lambda item: families.rank(item.nodeid, paired=_paired))


def pytest_collection_finish() -> None:
    """Ten thousand tests and all modules are looked through for garbage no more: once took a second, and again and
    again while they came a third of the time until the first test."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """End what the tests to come have no use for. (Should one ask all the same, it is started again.)"""
    yield
    if nextitem is None or not families.uses_brokers(nextitem.nodeid):
        end_shared()
        end_shared_spark()
    if nextitem is not None and families.file_of(nextitem.nodeid) not in _paired:
        end_shared([families.SECOND_BROKER])
    family = nextitem and families.family_of(nextitem.nodeid)
    end_shared(name for name, owner in SHARED_IN.items() if owner != family)


StartSandbox = Callable[..., tuple[Sandbox, SandboxInfo]]


@pytest.fixture
def start_sandbox(tmp_path: Path) -> Iterator[StartSandbox]:
    """`start_sandbox(settings=…, name=…)`: a broker of the test's own, and its `Sandbox`."""
    with ExitStack() as brokers:

        def start(
            *, settings: SandboxSettings = SandboxSettings(), name: str = "own-broker"
        ) -> tuple[Sandbox, SandboxInfo]:
            return brokers.enter_context(running(tmp_path / name, settings))

        yield start
