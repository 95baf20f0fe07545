"""The fake has the conversation that a real broker has in the soak, and every answer of it has Zeebe's shape."""

from __future__ import annotations

import pytest

from tests.fake_zeebe import facts
from tests.fake_zeebe.cluster import FakeZeebe, Part, Partition, State
from tests.fake_zeebe.conversation import Talker, converse, refuse
from tests.fake_zeebe.server import ZeebeServer, serving


def talker(zeebe: ZeebeServer) -> Talker:
    return Talker("127.0.0.1", zeebe.port, zeebe.route)


@pytest.mark.parametrize("says_200", [True, False])
@pytest.mark.parametrize("route", ["backups", "backupRuntime"])
def test_it_speaks_as_zeebe_does(route: str, says_200: bool) -> None:
    with serving(FakeZeebe(unseen=3), route=route, exporting_says_200=says_200) as zeebe:
        converse(talker(zeebe), 10)
        refuse(talker(zeebe))


def test_it_refuses_as_zeebe_does_where_no_backup_can_be_taken(zeebe: ZeebeServer) -> None:
    zeebe.zeebe.has_store = False
    assert talker(zeebe).take(7)[0] == 400
    zeebe.zeebe.has_store, zeebe.zeebe.is_continuous = True, True
    assert talker(zeebe).take(7)[0] == 400
    zeebe.zeebe.is_continuous, zeebe.zeebe.is_scaling = False, True
    assert talker(zeebe).take(7)[0] == 409


@pytest.mark.parametrize(
    ("states", "whole"),
    [
        (("COMPLETED", "COMPLETED"), "COMPLETED"),
        (("COMPLETED", "IN_PROGRESS"), "IN_PROGRESS"),
        (("COMPLETED", None), "INCOMPLETE"),
        (("IN_PROGRESS", None), "INCOMPLETE"),
        (("FAILED", None), "FAILED"),
        (("FAILED", "COMPLETED"), "FAILED"),
    ],
)
def test_it_adds_states_up_in_zeebes_order(states: tuple[str | None, ...], whole: str) -> None:
    partitions = {
        number: Partition(parts={7: Part(state=State(state), created_s=1e9, left=9)} if state else {})
        for number, state in enumerate(states, start=1)
    }
    with serving(FakeZeebe(partitions=partitions)) as zeebe:
        assert talker(zeebe).status(7)[1]["state"] == whole


def test_the_facts_can_tell_a_wrong_shape() -> None:
    good = {"backupId": 7, "state": "COMPLETED", "details": [{"partitionId": 1, "state": "COMPLETED"}]}
    facts.check_backup(good)
    for wrong in (
        {"state": "FAILED"},
        {"state": "STRANGE"},
        {"backupId": "7"},
        {"more": 1},
        {"details": [{"partitionId": 0, "state": "COMPLETED"}]},
        {"details": [{"partitionId": 1, "state": "COMPLETED", "createdAt": "yesterday"}]},
        {"details": [{"partitionId": 1, "state": "COMPLETED"}, {"partitionId": 2, "state": "DOES_NOT_EXIST"}]},
    ):
        with pytest.raises(AssertionError):
            facts.check_backup(good | wrong)


def test_a_retry_of_the_same_id_completes_what_began_on_some_partitions() -> None:
    zeebe = FakeZeebe(copying=0)
    zeebe.partitions[1].checkpoint = 7
    zeebe.partitions[1].parts[7] = Part(state=State.IN_PROGRESS, created_s=1e9)
    with serving(zeebe) as server:
        assert talker(server).take(7)[0] == 202
        assert talker(server).status(7)[1]["state"] == "COMPLETED"
