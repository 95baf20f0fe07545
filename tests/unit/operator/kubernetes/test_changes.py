"""What Kubernetes changes is judged as what files change: by content, and tried before anything is stopped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from offsite.operator.core.monitor import OPERATOR_SERIES, HomeMonitor
from offsite.operator.kubernetes.record import read_record
from offsite.repository.declared.history import BackupPhase
from tests.processes import wait_until
from tests.unit.operator.kubernetes.kubernetes_home import World, opened_world


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with opened_world(tmp_path, monkeypatch) as found:
        yield found


def put_accounts(world: World, **endpoints: Path) -> None:
    entries = [{"name": name, "endpoint": str(endpoint), "namespaces": ["*"]} for name, endpoint in endpoints.items()]
    (world.root / "accounts.yaml").write_text(yaml.safe_dump(entries))


def test_the_order_of_accounts_moves_nothing_and_another_spelling_is_noted_instead(world: World) -> None:
    home, uid = world.running()
    world.root.joinpath("link").symlink_to(world.root / "backups")
    put_accounts(world, elsewhere=world.root / "elsewhere", backups=world.root / "link")
    for each in (home, world.home()):
        world.look(each)
        assert [low.phase for low in world.lows(uid)] == [BackupPhase.RUNNING]
        assert world.conditions() == {}
    assert world.lows(uid, "elsewhere") == ()
    assert [place.repository for place in read_record(world.body()).places] == [str(world.root / "link")]


def test_a_contradiction_that_a_definition_let_pass_is_refused_and_stops_nothing(world: World) -> None:
    """As one of before does: who applied an older definition."""
    home, uid = world.running()
    before = world.deployment()["spec"]
    world.change(expiry={"maximumRetention": "5s", "minimumRestorable": "1h"})
    world.look(home)
    assert "is longer than maximumRetention (5s)" in world.conditions()["MisconfiguredBackup"]
    assert [low.phase for low in world.lows(uid)] == [BackupPhase.RUNNING]
    assert world.deployment()["spec"] == before
    assert world.begun() == [], "no job goes by it"


def test_expiry_jobs_that_fail_are_a_condition_and_a_metric(world: World) -> None:
    home, _ = world.running(expiry={"maximumRetention": "7d"})
    (world.root / "exit").write_text("11")

    def is_told() -> bool:
        home.round()
        world.clock.sleep(31 if not world.pids() else 5)
        return "ExpiryFailing" in world.conditions()

    wait_until(is_told, "the condition")
    assert "it ended with 11" in world.conditions()["ExpiryFailing"]
    home.round()
    assert home.rounds.failing == {"Backup": 1}
    shown = HomeMonitor(home=home, clock=world.clock).metrics("").text.decode()
    assert f'{OPERATOR_SERIES[2].name}{{kind="Backup"}} 1' in shown
