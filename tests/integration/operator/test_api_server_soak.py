"""Our definitions in a real API server: it takes them, and what is declared is held as they say."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from offsite.operator.resources.backup import FINALIZER
from offsite.operator.resources.definition import DEFINITIONS, resource_definition
from offsite.operator.resources.parse import parse_resource
from tests.fetched_tools import NoTool
from tests.integration.operator.api_server import DEFINITIONS_PATH, api_server, fetched_programs
from tests.processes import wait_until
from tests.unit.operator.resources.documents import (
    ACCEPTED,
    REFUSED,
    REFUSED_AS_CONTRADICTIONS,
    REFUSED_BY_KEYS,
    REFUSED_BY_LISTS,
    REFUSED_BY_RULES,
    RESTORE,
    document,
    template,
)

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]  # the server is compiled once, which takes minutes

STRICT = {"fieldValidation": "Strict"}
MERGE = {"Content-Type": "application/merge-patch+json"}
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
POINT = {"commit": 1, "timestamp": "2026-11-24T12:00:00Z"}
LATER = {"commit": 9, "timestamp": "2026-11-24T13:00:00Z"}
ALL_REFUSED = REFUSED | REFUSED_BY_RULES | REFUSED_BY_KEYS | REFUSED_BY_LISTS | REFUSED_AS_CONTRADICTIONS

_names = (f"shop-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Of a server that has our definitions."""
    try:
        programs = fetched_programs()
    except NoTool as error:
        pytest.skip(str(error))
    with api_server(tmp_path_factory.mktemp("api-server"), programs) as server:
        for definition in DEFINITIONS.values():
            made = server.client.post(DEFINITIONS_PATH, json=resource_definition(definition), params=STRICT)
            assert made.status_code == 201, made.text
        wait_until(lambda: established(server.client), "all definitions are established")
        yield server.client


def established(client: httpx.Client) -> bool:
    items = client.get(DEFINITIONS_PATH).json()["items"]
    held = [{each["type"]: each["status"] for each in item["status"].get("conditions") or ()} for item in items]
    return len(items) == len(DEFINITIONS) and all(each.get("Established") == "True" for each in held)


def path(kind: str, *parts: str) -> str:
    return "/".join(["/apis/offsite.dev/v1alpha1/namespaces/default", DEFINITIONS[kind].plural, *parts])


def make(client: httpx.Client, kind: str, spec: dict[str, Any] | None) -> dict[str, Any]:
    made = client.post(path(kind), json=document(kind, spec, name=next(_names)), params=STRICT)
    assert made.status_code == 201, made.text
    found: dict[str, Any] = made.json()
    return found


def change(client: httpx.Client, it: dict[str, Any], patch: dict[str, Any], *more: str) -> httpx.Response:
    return client.patch(path(it["kind"], it["metadata"]["name"], *more), json=patch, headers=MERGE)


def said(answer: httpx.Response) -> str:
    assert answer.status_code == 422, answer.text
    return str(answer.json()["message"])


@pytest.mark.parametrize("name", ACCEPTED)
def test_it_takes_what_the_models_take_and_fills_in_their_defaults(client: httpx.Client, name: str) -> None:
    given = ACCEPTED[name]
    made = client.post(path(given["kind"]), json=given, params=STRICT | {"dryRun": "All"})
    assert made.status_code == 201, made.text
    assert made.json()["spec"] == parse_resource(given, source="a").model_dump(mode="json", by_alias=True)["spec"]


@pytest.mark.parametrize("name", ALL_REFUSED)
def test_it_refuses_what_the_models_refuse(client: httpx.Client, name: str) -> None:
    given = ALL_REFUSED[name]
    made = client.post(path(given["kind"]), json=given, params=STRICT | {"dryRun": "All"})
    assert made.status_code in {400, 422}, made.text


@pytest.mark.parametrize(("amount", "status"), [(2, 201), ("500m", 201), (-1, 422), (0.5, 422), (True, 422)])
def test_an_amount_is_a_text_or_a_whole_number(client: httpx.Client, amount: object, status: int) -> None:
    given = template({"containers": [{"name": "agent", "resources": {"limits": {"cpu": amount}}}]})
    made = client.post(path("Backup"), json=given, params=STRICT | {"dryRun": "All"})
    assert made.status_code == status, made.text
    if status == 201:
        limits = {"limits": {"cpu": str(amount)}, "requests": {}}
        read = parse_resource(made.json(), source="the API server").model_dump(mode="json", by_alias=True)["spec"]
        assert read["agents"]["template"]["spec"]["containers"][0]["resources"] == limits


def test_what_it_hands_out_the_models_read(client: httpx.Client) -> None:
    made = make(client, "Backup", {"tag": "daily"})
    found = parse_resource(made, source="the API server")
    assert (found.metadata.uid, found.metadata.generation) == (made["metadata"]["uid"], 1)


def test_a_field_that_there_is_not_is_pruned_where_nobody_asked_to_be_told(client: httpx.Client) -> None:
    name = next(_names)
    given = document("Backup", {"snapshotduration": "1d"}, name=name)
    assert client.post(path("Backup"), json=given, params=STRICT).status_code == 400
    made = client.post(path("Backup"), json=given, params={"fieldValidation": "Warn"})
    assert made.status_code == 201
    assert "spec.snapshotduration" in made.headers["Warning"]
    assert "snapshotduration" not in made.json()["spec"]


@pytest.mark.parametrize("spec", [{"cluster": "shop"}, {}, None])
def test_the_cluster_of_a_backup_is_immutable(client: httpx.Client, spec: dict[str, Any] | None) -> None:
    it = make(client, "Backup", spec)
    assert "cluster is immutable" in said(change(client, it, {"spec": {"cluster": "other"}}))
    assert change(client, it, {"spec": {"state": "paused", "topics": ["orders"]}}).json()["metadata"]["generation"] == 2


@pytest.mark.parametrize("patch", [{"spec": {"cluster": None}}, {"spec": None}])
def test_nor_can_it_be_taken_away(client: httpx.Client, patch: dict[str, Any]) -> None:
    it = make(client, "Backup", {"cluster": "shop"})
    assert "cluster is immutable" in said(change(client, it, patch))


@pytest.mark.parametrize(
    "patch",
    [
        {"cluster": "other"},
        {"backupUrl": "s3://bucket/kafka#other"},
        {"topics": ["orders"]},
        {"commit": 8},
        {"timestamp": "2026-11-24T12:00:00Z"},
        {"commit": None},
        {"tag": "other"},
        {"state": "stopped", "groups": "all"},
    ],
    ids=str,
)
def test_a_restore_is_immutable(client: httpx.Client, patch: dict[str, Any]) -> None:
    it = make(client, "Restore", {**RESTORE, "commit": 7})
    assert "a Restore is immutable" in said(change(client, it, {"spec": patch}))


def test_a_restore_may_be_stopped_and_stays_so(client: httpx.Client) -> None:
    it = make(client, "Restore", RESTORE)
    assert change(client, it, {"spec": {"state": "stopped"}}).json()["spec"]["state"] == "stopped"
    assert "cannot run again" in said(change(client, it, {"spec": {"state": "running"}}))
    assert "cannot run again" in said(change(client, it, {"spec": {"state": None}}))


def test_a_schedule_may_be_changed(client: httpx.Client) -> None:
    it = make(client, "Schedule", {"backup": "shop", "action": "drill", "cron": "0 3 * * *"})
    changed = change(client, it, {"spec": {"suspend": True, "cron": "0 4 * * *"}})
    assert changed.json()["spec"] == it["spec"] | {"suspend": True, "cron": "0 4 * * *"}


def test_status_and_spec_are_written_apart(client: httpx.Client) -> None:
    it = make(client, "Backup", {})
    told = {"reconciled": True, "observedGeneration": 1}
    by_the_way = change(client, it, {"status": told, "spec": {"state": "paused"}}).json()
    assert ("status" in by_the_way, by_the_way["spec"]["state"]) == (False, "paused")
    by_its_path = change(client, it, {"status": told, "spec": {"state": "stopped"}}, "status").json()
    assert (by_its_path["status"], by_its_path["spec"]["state"]) == (told, "paused")
    assert by_its_path["metadata"]["generation"] == 2


def test_a_condition_is_there_once(client: httpx.Client) -> None:
    it = make(client, "Backup", {})
    one = {"type": "IncorrectDeployment", "status": "True"}
    said_twice = change(client, it, {"status": {"conditions": [one, one]}}, "status")
    assert "Duplicate value" in said(said_twice)


def test_a_list_shows_what_the_design_asks_for(client: httpx.Client) -> None:
    it = make(client, "Backup", {})
    backups = [{"oldestData": POINT, "latestRestorable": POINT}, {"oldestData": LATER, "latestRestorable": LATER}]
    assert change(client, it, {"status": {"reconciled": True, "backups": backups}}, "status").is_success
    table = client.get(path("Backup", it["metadata"]["name"]), headers=TABLE).json()
    columns = [each["name"] for each in table["columnDefinitions"] if each["priority"] == 0]
    (row,) = table["rows"]
    cells = dict(zip((each["name"] for each in table["columnDefinitions"]), row["cells"], strict=True))
    assert columns == ["Name", "Generation", "Reconciled", "Oldest", "Restorable", "Age"]
    assert (cells["Name"], cells["Generation"], cells["Reconciled"]) == (it["metadata"]["name"], 1, True)
    assert (cells["Oldest"], cells["Restorable"]) == (POINT["timestamp"], LATER["timestamp"])


def test_of_a_backup_on_its_way_out_nothing_is_the_newest(client: httpx.Client) -> None:
    it = make(client, "Backup", {})
    backups = [{"oldestData": POINT, "latestRestorable": LATER}, {"phase": "running"}]
    assert change(client, it, {"status": {"backups": backups}}, "status").is_success
    table = client.get(path("Backup", it["metadata"]["name"]), headers=TABLE).json()
    cells = dict(zip((each["name"] for each in table["columnDefinitions"]), table["rows"][0]["cells"], strict=True))
    assert (cells["Oldest"], cells["Restorable"]) == (POINT["timestamp"], None)


@pytest.mark.parametrize("kind", ["Restore", "Schedule"])
def test_the_columns_of_the_others_can_be_shown(client: httpx.Client, kind: str) -> None:
    given = next(each for each in ACCEPTED.values() if each["kind"] == kind)
    it = make(client, kind, given["spec"])
    table = client.get(path(kind, it["metadata"]["name"]), headers=TABLE).json()
    assert [each["name"] for each in table["columnDefinitions"]] == [
        "Name",
        *(each.name for each in DEFINITIONS[kind].columns),
    ]
    assert len(table["rows"]) == 1


def test_a_backup_waits_for_its_finalizer_before_it_is_gone(client: httpx.Client) -> None:
    it = make(client, "Backup", {})
    place = path("Backup", it["metadata"]["name"])
    assert change(client, it, {"metadata": {"finalizers": [FINALIZER]}}).is_success
    assert client.delete(place).is_success
    waiting = client.get(place).json()
    read = parse_resource(waiting, source="the API server")
    assert read.metadata.deletion_timestamp
    assert read.metadata.finalizers == (FINALIZER,)
    assert change(client, it, {"status": {"reconciled": False}}, "status").is_success
    assert change(client, it, {"metadata": {"finalizers": None}}).is_success
    assert client.get(place).status_code == 404


def test_an_object_made_anew_under_the_same_name_is_another_one(client: httpx.Client) -> None:
    it = make(client, "Backup", {})
    place = path("Backup", it["metadata"]["name"])
    assert client.delete(place).is_success
    again = client.post(path("Backup"), json=document("Backup", {}, name=it["metadata"]["name"])).json()
    assert again["metadata"]["uid"] != it["metadata"]["uid"]
