"""The API over a repository and two clusters: what is seen, planned, confirmed, begun."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from offsite.checkpoint.request import request_checkpoint
from offsite.checkpoint.serve import CheckpointServer
from offsite.checkpoint.status import Checkpoints
from offsite.model.selection import to_arguments
from tests.fake_cluster.site import BACKUP, Site
from tests.unit.serve.conftest import FakedClusters

BASE = f"/api/v1/backups/{BACKUP}"


def got(client: TestClient, path: str) -> Any:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def take(site: Site, checkpoint: int) -> None:
    request_checkpoint(site.backup, checkpoint)
    CheckpointServer(
        repository=site.repository,
        backup=site.backup,
        cluster=site.source.connected,
        runner=site.runner,
    ).serve()


def test_it_answers_what_the_commands_print(client: TestClient, site: Site) -> None:
    take(site, 7)
    assert got(client, "/api/v1/status")["backups"][0]["backup"] == BACKUP
    assert [each["backup"] for each in got(client, "/api/v1/backups")["backups"]] == [BACKUP]
    assert [each["topic"] for each in got(client, BASE)["topics"]] == ["orders"]
    assert len(got(client, f"{BASE}?points=1")["restore_points"]) == 1
    assert got(client, f"{BASE}/checkpoints")["total"] == 1
    assert got(client, f"{BASE}/checkpoints/7")["status"] == "completed"
    assert got(client, f"{BASE}/checkpoints/7/explanation")["classes"] == [["orders", "unchanged"]]
    assert got(client, f"{BASE}/groups")["commit"] == 2
    assert got(client, f"{BASE}/pins") == []


@pytest.mark.parametrize(
    ("path", "status", "error"),
    [
        ("/api/v1/backups/none", 404, "OFF-1002"),
        (f"{BASE}?commit=99", 404, "OFF-0208"),
        (f"{BASE}/checkpoints/9", 404, "OFF-0208"),
        (f"{BASE}/checkpoints/0", 400, "OFF-0202"),
        (f"{BASE}/checkpoints/x", 400, "OFF-0202"),
        ("/api/v1/backups/..%2F..%2Fetc", 404, "OFF-0202"),
        ("/api/v1/backups/a%00b", 400, "OFF-0201"),
        ("/api/v1/jobs/..", 404, "OFF-0202"),
        ("/api/v1/jobs/20260101-000000-00000000", 404, "OFF-1004"),
        ("/nothing", 404, "OFF-0202"),
    ],
)
def test_what_is_not_there_has_its_error(client: TestClient, path: str, status: int, error: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.json()["error"]["id"]) == (status, error), answer.text


def test_a_restore_is_carried_out_as_it_was_planned(client: TestClient, coordinator: FakedClusters) -> None:
    planned = client.post(f"{BASE}/restores/plan", json={"target": "target", "rename": ["orders=again"]}).json()
    assert [each["target"] for each in planned["plan"]["topics"]] == ["again"]
    assert planned["words"] == {"commit": 1, "rename": ["orders=again"]}
    body = {**planned["words"], "target": "target", "confirmation": planned["confirmation"]}
    left_open = {name: value for name, value in body.items() if name != "commit"}
    assert client.post(f"{BASE}/restores", json=left_open).status_code == 409, "it would mean the newest of then"
    begun = client.post(f"{BASE}/restores", json=body)
    assert begun.status_code == 202, begun.text
    command = ("restore", "run", f"--backup={BACKUP}", "--commit=1", "--rename=orders=again", "--yes")
    assert coordinator.begun == [(begun.json()["job"], command)]
    assert planned["command"].startswith(
        f"offsite restore run --backup={BACKUP} --commit=1 --rename=orders=again --yes"
    )
    assert planned["command"].endswith(" --bootstrap=target:9092")
    job = got(client, begun.headers["Location"])
    assert (job["state"], job["kind"], job["backup"]) == ("starting", "restore", BACKUP)
    assert job["asked_by"] == "this machine"


def test_a_restore_keeps_its_records_where_the_coordinator_was_told_and_nowhere_else(
    client: TestClient, coordinator: FakedClusters, tmp_path: Path
) -> None:
    """Whoever asks would have it written there with the coordinator's rights."""
    (told := tmp_path / "records").mkdir()
    coordinator.settings = replace(coordinator.settings, records=(str(told),))
    asked = {"target": "target", "rename": ["orders=again"]}
    for path in (f"{BASE}/restores/plan", f"{BASE}/drills", f"{BASE}/groups/plan"):
        more = asked if "restores" in path else {}
        refused = client.post(path, json={**more, "records": str(tmp_path)})
        assert (refused.status_code, refused.json()["error"]["id"]) == (400, "OFF-0202"), refused.text
    planned = client.post(f"{BASE}/restores/plan", json={**asked, "records": str(told)}).json()
    assert planned["plan"]["records_at"] == str(told)
    body = {**planned["words"], "target": "target", "confirmation": planned["confirmation"]}
    assert client.post(f"{BASE}/restores", json=body).status_code == 202
    assert f"--records={told}" in coordinator.begun[0][1]


def test_a_repeated_restore_finds_its_job_whatever_that_has_changed_already(
    client: TestClient, coordinator: FakedClusters, site: Site
) -> None:
    planned = client.post(f"{BASE}/restores/plan", json={"target": "target", "rename": ["orders=again"]}).json()
    body = {**planned["words"], "target": "target", "confirmation": planned["confirmation"]}
    key = {"Idempotency-Key": "once"}
    first = client.post(f"{BASE}/restores", json=body, headers=key)
    site.target.make_topic("again", partitions=2)
    second = client.post(f"{BASE}/restores", json=body, headers=key)
    assert (first.status_code, second.status_code) == (202, 202), second.text
    assert second.json() == {**first.json(), "is_new": False}
    assert len(coordinator.begun) == 1
    elsewhere = client.post(f"{BASE}/restores", json={**body, "target": "source"}, headers=key)
    assert (elsewhere.status_code, elsewhere.json()["error"]["id"]) == (409, "OFF-1136"), elsewhere.text


@pytest.mark.parametrize(
    "change", [{"confirmation": "0" * 32}, {"target": "source"}, {"rename": ["orders=other"]}, {"groups": ["all"]}]
)
def test_a_restore_that_was_not_planned_so_is_refused(
    client: TestClient, coordinator: FakedClusters, change: dict[str, Any]
) -> None:
    planned = client.post(f"{BASE}/restores/plan", json={"target": "target", "rename": ["orders=again"]}).json()
    body = {**planned["words"], "target": "target", "confirmation": planned["confirmation"], **change}
    answer = client.post(f"{BASE}/restores", json=body)
    assert (answer.status_code, answer.json()["error"]["id"]) == (409, "OFF-1422"), answer.text
    assert coordinator.begun == []


def test_a_plan_that_is_not_true_any_more_is_refused(
    client: TestClient, coordinator: FakedClusters, site: Site
) -> None:
    planned = client.post(f"{BASE}/restores/plan", json={"target": "target"}).json()
    site.target.make_topic("orders", partitions=2)
    answer = client.post(
        f"{BASE}/restores", json={**planned["words"], "target": "target", "confirmation": planned["confirmation"]}
    )
    assert answer.status_code == 409, answer.text
    assert coordinator.begun == []


def test_files_of_the_server_and_unknown_clusters_cannot_be_named(client: TestClient) -> None:
    for body in ({"offsets_file": "/etc/passwd"}, {"target": "evil:9092"}, {"bootstrap": "evil:9092"}):
        assert client.post(f"{BASE}/restores/plan", json=body).status_code == 400


def test_a_time_is_told_as_a_time(client: TestClient) -> None:
    planned = client.post(f"{BASE}/restores/plan", json={"target": "target", "at": "0s-ago"}).json()
    again = client.post(f"{BASE}/restores/plan", json={"target": "target", **planned["words"]}).json()
    assert planned["words"]["at"].endswith("Z")
    assert again["confirmation"] == planned["confirmation"]


def test_a_repeated_request_begins_one_job(client: TestClient, coordinator: FakedClusters) -> None:
    headers = {"Idempotency-Key": "once"}
    first, again = (client.post(f"{BASE}/verifications", json={"deep": True}, headers=headers) for _ in range(2))
    assert (first.json()["is_new"], again.json()["is_new"]) == (True, False)
    assert [each for each, _ in coordinator.begun] == [first.json()["job"]] == [again.json()["job"]]
    other = client.post(f"{BASE}/verifications", json={"deep": False}, headers=headers)
    assert (other.status_code, other.json()["error"]["id"]) == (409, "OFF-1136")


def test_each_job_is_the_command_of_that_name(client: TestClient, coordinator: FakedClusters) -> None:
    for path, body in (
        ("runs", {"topics": ["a,b", "--x"], "internal": True}),
        ("checkpoints", {"id": 9}),
        ("verifications", {"deep": True, "against": "target"}),
        ("drills", {"commit": 1}),
    ):
        assert client.post(f"{BASE}/{path}", json=body).status_code == 202
    assert [command for _, command in coordinator.begun] == [
        ("backup", "run", f"--backup={BACKUP}", "--topics=a\\,b", "--topics=--x", "--internal"),
        ("checkpoint", "take", f"--backup={BACKUP}", "--id=9", "--wait"),
        ("verify", f"--backup={BACKUP}", "--deep", "--against=target:9092"),
        ("restore", "drill", f"--backup={BACKUP}", "--commit=1", "--sandbox"),
    ]


def test_a_job_is_told_to_end_by_any_coordinator(client: TestClient) -> None:
    job = client.post(f"{BASE}/verifications", json={}).json()["job"]
    cancelled = client.post(f"/api/v1/jobs/{job}/cancel")
    assert (cancelled.status_code, cancelled.json()["cancelled_by"]) == (202, "this machine")
    assert [each["id"] for each in got(client, "/api/v1/jobs")["jobs"]] == [job]


def test_retention_lets_go_what_was_confirmed_and_nothing_else(client: TestClient, site: Site) -> None:
    for text in (b"c", b"d"):
        site.source.write("orders", [text])
        site.back_up()
    words = {"keep_hourly": 1}
    planned = client.post(f"{BASE}/retention/plan", json=words).json()
    assert planned["plan"]["removed_points"] == 2
    told = {"confirmation": planned["confirmation"], "now_ms": planned["plan"]["now_ms"]}
    assert client.post(f"{BASE}/retention", json={"keep_hourly": 2, "keep_daily": 1, **told}).status_code == 409
    assert len(site.backup.state().history) == 3
    done = client.post(f"{BASE}/retention", json={**words, **told})
    assert (done.status_code, done.json()["removed_points"]) == (200, 2), done.text
    assert len(site.backup.state().history) == 2  # the newest, and the commit that let the others go


def test_a_checkpoint_is_deleted_by_the_value_of_its_plan(client: TestClient, site: Site) -> None:
    take(site, 7)
    take(site, 8)
    path = f"{BASE}/checkpoints/7"
    planned = client.post(f"{path}/deletion/plan").json()
    assert client.delete(path, params={"confirmation": "0" * 32}).status_code == 409
    deleted = client.delete(path, params={"confirmation": planned["confirmation"]})
    assert (deleted.status_code, deleted.json()["status"]) == (200, "deleted")
    assert Checkpoints(site.backup).report(8).status == "completed"


def test_groups_are_put_in_place_by_the_value_of_their_plan(client: TestClient) -> None:
    planned = client.post(f"{BASE}/groups/plan", json={"target": "source"}).json()
    told = {"target": "source", "confirmation": planned["confirmation"]}
    assert client.post(f"{BASE}/groups", json={**told, "confirmation": "x"}).status_code == 409
    assert client.post(f"{BASE}/groups", json=told).json()["failed"] == []


def test_a_value_is_never_taken_for_an_option() -> None:
    assert to_arguments({"a_b": ["--yes", ""], "c": False, "d": True, "e": None, "f": 3}) == [
        "--a-b=--yes",
        "--a-b=",
        "--d",
        "--f=3",
    ]
