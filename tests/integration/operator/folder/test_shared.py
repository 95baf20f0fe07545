"""Two folders over one repository whose resources are one backup."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from offsite.cli.commands.operator import app
from offsite.model.errors import ResourceNotFound
from offsite.operator.folder.edits import plan_removal
from offsite.operator.folder.operator import FolderOperator
from offsite.operator.world.membership import list_members
from offsite.overview.declared import read_declared_status
from offsite.repository.declared.history import BackupPhase
from offsite.repository.declared.ledger import declared_ledger
from offsite.repository.declared.members import member_id
from tests.unit.operator.folder.home import Home, opened_home, resource

IDENTITY = "shop-everywhere"


@pytest.fixture
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Home, Home]]:
    with opened_home(tmp_path, monkeypatch) as one:
        accounts = one.root / "accounts.yaml"
        accounts.write_text(f"{accounts.read_text()}  identities: [{{name: {IDENTITY}}}]\n")
        other = tmp_path / "other"
        shutil.copytree(one.root, other)
        yield one, Home(root=other, repository=one.repository, clock=one.clock)


def begun(homes: tuple[Home, Home]) -> list[FolderOperator]:
    """Operators of both, and one backup that is as declared in both."""
    operators = [home.operator() for home in homes]
    for home in homes:
        home.put("shop.yaml", resource(identity=IDENTITY, agents={"replicas": 1}))
    looked(homes, operators)
    homes[0].copy(IDENTITY)
    looked(homes, operators)
    assert [home.conditions("shop") for home in homes] == [{}, {}]
    return operators


def looked(homes: tuple[Home, Home], operators: list[FolderOperator], times: int = 5) -> None:
    for _ in range(times):
        for operator in operators:
            operator.look()
        homes[0].pass_s(11)


def phases(home: Home) -> list[BackupPhase]:
    return [low.phase for low in home.lows(IDENTITY)]


def test_their_agents_work_for_one_ledger(homes: tuple[Home, Home]) -> None:
    begun(homes)
    agents = [line for line in homes[0].begun() if "operator agent" in line]
    assert len(agents) == 2
    assert all(f"--uid {IDENTITY}" in line for line in agents)
    assert phases(homes[0]) == [BackupPhase.RUNNING]
    (seen,) = read_declared_status(homes[0].repository.store).resources
    assert (seen.uid, len(seen.members), seen.problem) == (IDENTITY, 2, "")
    members = homes[1].status("shop")["status"]["members"]
    assert [member["counts"] for member in members] == [True, False]
    assert [member["own"] for member in members] == [False, True], "names may be alike"


def test_the_backup_goes_with_the_last_of_them(homes: tuple[Home, Home]) -> None:
    operators = begun(homes)
    (homes[0].root / "shop.yaml").unlink()
    looked(homes, operators)
    assert operators[0].records.find("Backup", "shop") is None
    assert phases(homes[0]) == [BackupPhase.RUNNING]
    assert not any("--delete" in line for line in homes[0].begun())

    (homes[1].root / "shop.yaml").unlink()
    for _ in range(60):
        looked(homes, operators, times=1)
        if operators[1].records.find("Backup", "shop") is None:
            break
    assert any("--delete --member" in line for line in homes[0].begun())


def test_what_is_told_in_the_repository_is_told_of_each_of_them(homes: tuple[Home, Home]) -> None:
    """Whoever told something last: one is as it is declared, and the other one is not."""
    operators = begun(homes)
    homes[0].put("shop.yaml", resource(identity=IDENTITY, agents={"replicas": 1}, tag="new"))
    looked(homes, operators)
    for operator in reversed(operators):
        operator.look()
        homes[0].pass_s(61)
    (seen,) = read_declared_status(homes[0].repository.store).resources
    others = next(message for told, message in seen.conditions.items() if "declares other values: tag" in message)
    mine, theirs = (member_id(IDENTITY, uid(operator)) for operator in operators)
    assert f"member {mine[:8]}" in others
    assert any(told.startswith("DeclaredOtherwise of shop") and theirs[:8] in told for told in seen.conditions)
    assert len({told for told in seen.conditions if told.startswith("DeclaredOtherwise")}) == 2


def uid(operator: FolderOperator) -> str:
    record = operator.records.find("Backup", "shop")
    assert record is not None
    return record.uid


def test_an_identity_that_no_account_lists_begins_nothing(homes: tuple[Home, Home]) -> None:
    home = homes[0]
    operator = home.operator()
    home.put("shop.yaml", resource(identity="shop-of-others"))
    for _ in range(3):
        operator.look()
    assert "identities: [{name: shop-of-others}]" in home.conditions("shop")["MisconfiguredBackup"]
    assert home.lows("shop-of-others") == ()
    assert home.begun() == []


def test_an_identity_cannot_be_changed(homes: tuple[Home, Home]) -> None:
    operators = begun(homes)
    homes[0].put("shop.yaml", resource(agents={"replicas": 1}))
    looked(homes, operators)
    assert "spec.identity is immutable" in homes[0].conditions("shop")["MisconfiguredBackup"]
    assert phases(homes[0]) == [BackupPhase.RUNNING]


def test_who_deletes_one_is_told_that_others_share_its_backup(homes: tuple[Home, Home]) -> None:
    begun(homes)
    plan = plan_removal(homes[0].layout, ("Backup", "shop"), ("r#shop-1",), keeps_backups=False)
    assert plan.identity == IDENTITY
    told = CliRunner().invoke(app, ["delete", "backup", "shop", "--dir", str(homes[0].root), "--yes"])
    assert "is DELETED, unless others share it" in told.output


def test_of_an_identity_without_a_ledger_a_command_says_so(homes: tuple[Home, Home]) -> None:
    begun(homes)
    with pytest.raises(ResourceNotFound, match=r"no ledger in .+ knows the identity shop-nowhere"):
        list_members(homes[0].repository.store, "shop-nowhere")


def test_a_command_shows_who_shares_a_backup_and_takes_off_who_is_gone(homes: tuple[Home, Home]) -> None:
    operators = begun(homes)
    repo = str(homes[0].root.parent / "backups")
    shown = CliRunner().invoke(app, ["members", IDENTITY, "--repo", repo, "--output", "json"])
    members = json.loads(shown.output)["members"]
    gone = member_id(IDENTITY, uid(operators[1]))
    assert gone in {member["id"] for member in members}

    words = ["members", IDENTITY, "--repo", repo, "--gone", gone, "--reason", "burnt down", "--yes"]
    told = CliRunner().invoke(app, words)
    assert "gone, declared by a person (burnt down)" in told.output
    operators[1].look()
    history = declared_ledger(homes[0].repository.store, IDENTITY).read()
    assert all(member.dismissed is None for member in history.members), "it is there after all, and joins again"
