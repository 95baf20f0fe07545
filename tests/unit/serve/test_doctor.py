"""`/api/v1/doctor`: the checks of the command, by who may put something into the store."""

from __future__ import annotations

from dataclasses import replace

from starlette.testclient import TestClient

from offsite.doctor.check import Need
from offsite.doctor.examine import CHECKS
from offsite.serve.tokens import TokenFile
from tests.unit.serve.conftest import Connect, FakedClusters

PATH = "/api/v1/doctor"


def verdicts(client: TestClient) -> dict[str, str]:
    answer = client.get(PATH)
    assert answer.status_code == 200
    return {each["id"]: each["verdict"] for each in answer.json()["checks"]}


def test_it_makes_the_checks_of_the_command_without_spark(client: TestClient) -> None:
    told = verdicts(client)
    assert list(told) == [each.id for each in CHECKS]
    assert {name for name, each in told.items() if each == "failed"} == set()
    assert told["kafka.bootstrap"] == told["store.create_only"] == "ok"
    assert {told[each.id] for each in CHECKS if Need.SPARK in each.needs} == {"skipped"}


def test_who_may_only_read_is_not_served(connect: Connect, tokens: TokenFile, secrets: dict[str, str]) -> None:
    assert connect(tokens=tokens, token=secrets["read"]).get(PATH).status_code == 403
    assert connect(tokens=tokens, token=secrets["operate"]).get(PATH).status_code == 200


def test_a_page_of_another_server_cannot_have_it_made(client: TestClient) -> None:
    assert client.get(PATH, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert client.get("/api/v1/status", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200


def test_one_examination_is_made_at_a_time(client: TestClient, coordinator: FakedClusters) -> None:
    with coordinator.examining:
        assert client.get(PATH).status_code == 429
    assert client.get(PATH).status_code == 200


def test_a_coordinator_that_only_shows_puts_nothing_into_the_store(
    connect: Connect, coordinator: FakedClusters
) -> None:
    coordinator.settings = replace(coordinator.settings, read_only=True)
    told = verdicts(connect(read_only=True))
    assert {told["store.rights"], told["store.large"], told["clocks.store"]} == {"skipped"}
    assert told["store.repository"] == "ok"
