from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from offsite.model.clock import SystemClock
from offsite.operator.core.accounts import Accounts, read_accounts
from offsite.operator.core.processes import Launches
from offsite.operator.decide.desired import DesiredAgents, RepositoryPlace
from offsite.operator.folder.agents import END_MAX_MS, PAUSE_MAX_MS, READY_MS, SILENT_S, LocalAgents
from offsite.operator.resources.backup import AgentTemplate
from tests.processes import is_alive, wait_until
from tests.unit.operator.folder.home import Home, opened_home

UID = "aaaaaaaa-1"
UIDS = (UID,)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    with opened_home(tmp_path, monkeypatch) as found:
        yield found


def agents_of(home: Home) -> LocalAgents:
    agents = LocalAgents(home.layout, clock=home.clock)
    refresh(home, agents)
    return agents


def refresh(home: Home, agents: LocalAgents) -> None:
    accounts = Accounts(listed=read_accounts(home.layout))
    command = (sys.executable, "-S", str(home.root.parent / "script.py"))
    agents.launches = Launches(layout=home.layout, accounts=accounts, command=command)


def wanted(home: Home, replicas: int = 2, **template: str) -> DesiredAgents:
    place = RepositoryPlace(account="main", repository=home.repository.store.url)
    return DesiredAgents(
        replicas=replicas, template=AgentTemplate.model_validate(template), place=place, cluster="shop"
    )


def tend(agents: LocalAgents) -> None:
    agents.tend(lambda: UIDS)


def pids(agents: LocalAgents) -> dict[int, int]:
    return {each.number: int(each.identity.pid) for each in agents.processes(UID)}


def test_so_many_run_as_are_wanted_and_no_more(home: Home) -> None:
    agents = agents_of(home)
    agents.configure(UID, wanted(home, 3))
    for _ in range(3):
        tend(agents)
    assert agents.alive(UID) == len(home.wait_for_begun(3)) == 3
    agents.configure(UID, wanted(home, 1))
    tend(agents)

    wait_until(lambda: agents.alive(UID) == 1, "two ends")
    tend(agents)
    tend(agents)
    assert list(pids(agents)) == [0]


def test_they_count_when_they_have_run_for_a_moment(home: Home) -> None:
    agents = agents_of(home)
    agents.configure(UID, wanted(home))
    tend(agents)
    assert (agents.observe(UID).configured, agents.observe(UID).ready) == (wanted(home), 0)
    home.pass_s(READY_MS / 1000)

    assert agents.observe(UID).ready == 2


def test_one_that_dies_young_begins_again_after_growing_pauses(home: Home) -> None:
    agents = agents_of(home)
    flag = home.flag("ends")
    agents.configure(UID, wanted(home, 1))
    pauses = []
    for _ in range(12):
        tend(agents)
        wait_until(lambda: agents.alive(UID) == 0, "its end")
        tend(agents)
        (noted,) = agents.processes(UID)
        pauses.append(noted.pause_ms)
        home.pass_s(noted.pause_ms / 1000 - 0.5)
        tend(agents)
        assert agents.processes(UID) == [noted]
        home.pass_s(0.5)
    flag.unlink()

    assert pauses[:3] == [2000, 4000, 8000]
    assert pauses[-1] == PAUSE_MAX_MS


def test_of_one_that_ends_its_message_is_told_and_not_the_hint_alone(home: Home) -> None:
    agents = agents_of(home)
    flag = home.flag("ends")
    flag.write_text("error[OFF-0201]: 'regex:(' is not a regular expression\n  hint: quote it for the shell")
    agents.configure(UID, wanted(home, 1))
    for _ in range(2):
        tend(agents)
        wait_until(lambda: agents.alive(UID) == 0, "its end")

    assert "'regex:(' is not a regular expression; hint: quote it" in agents.problem(UID)


def test_one_that_ran_for_long_begins_again_at_once(home: Home) -> None:
    agents = agents_of(home)
    agents.configure(UID, wanted(home, 1))
    tend(agents)
    home.wait_for_begun(1)
    home.pass_s(3600)
    os.kill(pids(agents)[0], signal.SIGKILL)
    wait_until(lambda: agents.alive(UID) == 0, "its end")
    tend(agents)

    assert agents.alive(UID) == 1


def test_another_operator_finds_them(home: Home) -> None:
    agents_one = agents_of(home)
    agents_one.configure(UID, wanted(home))
    tend(agents_one)
    before = pids(agents_one)
    other = agents_of(home)
    tend(other)

    assert pids(other) == before
    assert len(home.wait_for_begun(2)) == 2


def test_they_outlive_an_operator_that_is_killed(home: Home, tmp_path: Path) -> None:
    script = f"""
import os, signal
from pathlib import Path
from tests.integration.operator.folder import test_agents as t
from tests.unit.operator.folder.home import Home, HandClock
from offsite.repository.repository import Repository
from offsite.stores.posix_store import PosixStore
tmp = Path({str(tmp_path)!r})
home = Home(root=tmp / "home", repository=Repository.open(PosixStore(root=tmp / "backups")))
agents = t.agents_of(home)
agents.configure(t.UID, t.wanted(home))
t.tend(agents)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], timeout=60, check=False, env={**os.environ, "PYTHONPATH": str(Path.cwd())}
    )
    assert done.returncode == -signal.SIGKILL
    home.wait_for_begun(2)

    agents = agents_of(home)
    tend(agents)
    assert agents.alive(UID) == len(home.begun()) == 2


@pytest.mark.parametrize("change", ["template", "secret", "cluster"])
def test_they_are_replaced_one_after_the_other_when_what_they_are_for_changes(home: Home, change: str) -> None:
    agents = agents_of(home)
    agents.configure(UID, wanted(home, 3))
    tend(agents)
    home.wait_for_begun(3)
    home.pass_s(10)
    before = set(pids(agents).values())
    if change == "template":
        agents.configure(UID, wanted(home, 3, sparkMaster="local[2]"))
    elif change == "secret":
        text = home.layout.accounts.read_text()
        home.layout.accounts.write_text(text.replace("s3", "other"))
    else:
        home.layout.cluster("shop").write_text("bootstrap.servers=localhost:9093\n")
    refresh(home, agents)

    def is_replaced() -> bool:
        tend(agents)
        living = sum(is_alive(pid) for pid in {*before, *pids(agents).values()})
        assert living >= 2, "two were ended at once"
        home.pass_s(1)
        return not any(is_alive(pid) for pid in before) and agents.alive(UID) == 3

    wait_until(is_replaced, "three others")
    told = home.wait_for_begun(6)[3:]
    assert change != "template" or all("spark=local[2]" in line for line in told)
    assert change != "secret" or all("secret=other" in line for line in told)


def test_one_that_does_not_end_when_told_is_killed(home: Home) -> None:
    agents = agents_of(home)
    agents.configure(UID, wanted(home, 1))
    tend(agents)
    home.wait_for_begun(1)
    pid = pids(agents)[0]
    os.kill(pid, signal.SIGSTOP)
    agents.configure(UID, None)
    tend(agents)
    assert is_alive(pid)
    home.pass_s(END_MAX_MS / 1000 + 1)
    tend(agents)

    wait_until(lambda: not is_alive(pid), "its end")


def test_a_process_that_has_the_id_of_an_agent_by_now_is_left_alone(home: Home) -> None:
    agents = agents_of(home)
    agents.configure(UID, wanted(home, 1))
    tend(agents)
    home.wait_for_begun(1)
    (noted,) = agents.processes(UID)
    agents._noted(UID, replace(noted, identity=replace(noted.identity, started="1")))
    agents.configure(UID, None)
    tend(agents)
    tend(agents)

    assert agents.processes(UID) == []
    assert is_alive(int(noted.identity.pid))


def test_those_of_a_resource_that_is_gone_end(home: Home) -> None:
    agents = agents_of(home)
    agents.configure(UID, wanted(home))
    tend(agents)
    home.wait_for_begun(2)
    agents.tend(tuple)

    wait_until(lambda: agents.alive(UID) == 0, "two ends")
    agents.tend(tuple)
    agents.tend(tuple)
    assert not [each for each in home.layout.agents.iterdir() if each.is_dir()]


def test_all_end_when_the_operator_is_to_end_them(home: Home) -> None:
    agents = agents_of(home)
    agents.configure(UID, wanted(home))
    tend(agents)
    home.wait_for_begun(2)
    agents._clock = SystemClock()
    agents.end_all()

    assert agents.alive(UID) == 0


def test_an_account_that_is_gone_ends_no_agent(home: Home) -> None:
    agents = agents_of(home)
    agents.configure(UID, wanted(home, 1))
    tend(agents)
    home.wait_for_begun(1)
    home.layout.accounts.unlink()
    refresh(home, agents)
    tend(agents)

    assert agents.alive(UID) == 1


def test_agents_of_this_machine_under_a_former_name_end_and_others_begin(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents = agents_of(home)
    agents.configure(UID, wanted(home))
    tend(agents)
    home.wait_for_begun(2)
    before, former = set(pids(agents).values()), home.layout.agents
    monkeypatch.setattr(socket, "gethostname", lambda: "renamed")
    agents = agents_of(home)
    agents.configure(UID, wanted(home))
    tend(agents)

    wait_until(lambda: not any(is_alive(pid) for pid in before), "the end of those of before")
    tend(agents)
    assert not former.exists()
    assert agents.alive(UID) == 2


def other_machine(home: Home) -> Path:
    """What another machine noted of an agent of its own."""
    agents = agents_of(home)
    agents.configure(UID, wanted(home, 1))
    tend(agents)
    (line,) = home.wait_for_begun(1)
    (noted,) = agents.processes(UID)
    elsewhere = replace(noted.identity, host="elsewhere", boot="another", pid=str(os.getpid()))
    agents._noted(UID, replace(noted, identity=elsewhere))
    os.kill(int(line.split()[0]), signal.SIGKILL)
    return home.layout.agents.rename(home.layout.agents.with_name("elsewhere"))


def age(folder: Path, seconds: float) -> None:
    for path in folder.rglob("*"):
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - seconds))


def test_what_is_noted_of_another_machine_stays_until_it_is_silent_for_long(home: Home) -> None:
    folder = other_machine(home)
    agents = agents_of(home)
    tend(agents)
    age(folder, SILENT_S / 2)
    tend(agents)
    assert folder.exists()
    age(folder, SILENT_S / 2 + 60)
    (folder / UID / "0.log").touch()  # one of its agents says something
    tend(agents)
    assert folder.exists()
    age(folder, SILENT_S + 60)
    tend(agents)
    assert not folder.exists()
