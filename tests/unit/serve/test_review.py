"""What a hostile look at coordinators found: each of these was wrong once."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from offsite.jobs import status
from offsite.jobs.ask import JobRequest, request_job
from offsite.jobs.work import work_on
from offsite.jobs.workers import Workers
from offsite.model.clock import SystemClock
from offsite.model.errors import TooManyJobs
from offsite.repository.heads import RememberedHead
from offsite.repository.repository import Repository
from offsite.repository.snapshots.check_records import put_drill_report
from offsite.serve.site import SOURCE, ClusterAddress, SiteSettings
from offsite.serve.site import Site as CoordinatorSite
from offsite.serve.tokens import TokenFile, new_token
from offsite.stores.posix_store import open_folder
from tests.fake_cluster.site import BACKUP, Site
from tests.unit.serve.conftest import Connect, FakedClusters
from tests.unit.serve.test_pages import word

BASE = f"/api/v1/backups/{BACKUP}"
YEARS = "regex:(" + "|".join(["."] * 100) + ")*!"
STARS = f"{'*' * 40}Z={'*' * 40}Z"


@pytest.mark.parametrize("path", ["/backups/{0}/records", "/api/v1/backups/{0}/records"])
def test_no_pattern_of_a_reader_holds_a_coordinator_up(client: TestClient, path: str) -> None:
    shown = client.get(path.format(BACKUP), params={"topic": YEARS})
    assert "does not accept this pattern" in shown.text


@pytest.mark.parametrize("words", [{"topics": [YEARS]}, {"exclude": [YEARS]}, {"groups": [YEARS]}, {"rename": [STARS]}])
def test_no_pattern_in_a_plan_does(client: TestClient, words: dict[str, Any]) -> None:
    assert client.post(f"{BASE}/restores/plan", json={"target": "target", **words}).status_code == 400


def test_no_pattern_of_groups_does(client: TestClient) -> None:
    assert client.post(f"{BASE}/groups/plan", json={"target": "target", "groups": [YEARS]}).status_code == 400


def test_a_job_is_never_told_where_another_cluster_is(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[dict[str, str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda *_, env, **__: begun.append(env))
    monkeypatch.setenv("OFFSITE_KAFKA_CONFIG", "/etc/production.properties")
    Workers(environment={"OFFSITE_REPO": "r"}).begin("j", ["verify"], ClusterAddress(bootstrap="dr:9092").environment)
    assert {name: text for name, text in begun[0].items() if name.startswith("OFFSITE_")} == {
        "OFFSITE_REPO": "r",
        "OFFSITE_BOOTSTRAP": "dr:9092",
    }


def test_a_job_has_the_spark_that_its_coordinator_was_told_of_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[dict[str, str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda *_, env, **__: begun.append(env))
    for name in ("OFFSITE_SPARK_MASTER", "OFFSITE_SPARK_CONF", "OFFSITE_SPARK_PROPERTIES", "OFFSITE_SPARK_ARCHIVE"):
        monkeypatch.setenv(name, "of the environment")
    monkeypatch.setenv("OFFSITE_SECRETS", "in-clear")
    coordinator = CoordinatorSite(SiteSettings(repo="r"))
    coordinator.workers.begin("j", ["verify"], coordinator.environment)
    assert {name: text for name, text in begun[0].items() if name.startswith("OFFSITE_S")} == {
        "OFFSITE_SECRETS": "encrypted"
    }


def test_a_check_against_a_cluster_is_one_also_where_a_file_names_it(
    client: TestClient, coordinator: FakedClusters
) -> None:
    coordinator.settings.addresses[SOURCE] = ClusterAddress(kafka_config=Path("client.properties"))  # type: ignore[index]
    assert client.post(f"{BASE}/verifications", json={"against": SOURCE}).status_code == 202
    assert any(each.startswith("--against=") for each in coordinator.begun[0][1])


def test_a_checkpoint_that_no_job_may_take_is_not_asked_for(
    client: TestClient, coordinator: FakedClusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> None:
        raise TooManyJobs("full", hint="wait")

    monkeypatch.setattr(coordinator.workers, "check_free", full)
    assert client.post("/actuator/backups", json={"backupId": 100}).status_code == 429
    assert client.get("/actuator/backups/100").status_code == 404


def test_a_session_ends_with_the_token_that_began_it(connect: Connect, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    token = new_token("ann:restore", file)
    client = connect(tokens=TokenFile(file))
    assert client.post("/login", data={"word": word(client, "/login"), "token": token}).status_code == 303
    assert client.get("/api/v1/jobs").status_code == 200
    file.unlink()
    new_token("ann:restore", file)
    assert client.get("/api/v1/jobs").status_code == 401


def test_a_lost_job_that_was_only_silent_is_told_to_end(
    client: TestClient, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = site.repository.store
    job = request_job(store, JobRequest(kind="backup", arguments=("backup",), backup=BACKUP, by="ann")).id
    monkeypatch.setattr(status, "START_S", -1.0)
    assert client.post(f"/api/v1/jobs/{job}/cancel").json()["cancelled_by"]
    heard: list[int] = []
    with work_on(store, job, cancel=lambda: heard.append(1), clock=SystemClock()):
        until_s = time.monotonic() + 10
        while not heard and time.monotonic() < until_s:
            time.sleep(0.1)
    assert heard


def test_what_no_command_line_can_hold_begins_no_job(client: TestClient) -> None:
    answer = client.post(f"{BASE}/searches", json={"topic": "orders", "value": "a\0b"})
    assert answer.status_code == 400
    assert client.get("/api/v1/jobs").json()["jobs"] == []


def test_a_drill_that_did_not_prove_a_backup_is_told(client: TestClient, site: Site) -> None:
    backup = site.backup
    put_drill_report(
        backup.store, backup.layout, "20261124-1", {"ended": "2026-11-24T22:00:00Z", "proven": False}, "page"
    )
    assert "NOT PROVEN" in client.get("/").text


def test_a_backup_that_was_made_anew_is_not_taken_for_the_one_before(client: TestClient, site: Site) -> None:
    assert [each["topic"] for each in client.get(BASE).json()["topics"]] == ["orders"]
    root = Path(site.repository.store.url)
    shutil.rmtree(root / "backups" / BACKUP)
    RememberedHead(repository=site.repository, backup=BACKUP).forget()
    anew = replace(site, repository=Repository.open(open_folder(root)))
    anew.source.make_topic("invoices")
    anew.source.write("invoices", [b"x"])
    anew.back_up("invoices")
    assert [each["topic"] for each in client.get(BASE).json()["topics"]] == ["invoices"]


def test_an_origin_that_is_none_is_refused(client: TestClient) -> None:
    assert client.post(f"{BASE}/runs", json={}, headers={"Origin": "http://[x"}).status_code == 403


def test_whoever_deletes_what_is_told_of_jobs_stops_no_coordinator(client: TestClient, site: Site) -> None:
    for key in ("a", "b"):
        answer = client.post(f"{BASE}/verifications", json={}, headers={"Idempotency-Key": key})
        assert answer.status_code == 202, answer.text
        for folder in ("jobs", "job-keys"):
            shutil.rmtree(Path(site.repository.store.url) / folder)


def test_a_record_with_a_number_that_json_has_not_breaks_no_answer(client: TestClient, site: Site) -> None:
    site.source.write("orders", [b'{"a": 1e999}'])
    site.back_up()
    text = client.get(f"{BASE}/records", params={"topic": "orders"}).text
    json.loads(text, parse_constant=pytest.fail)


def test_no_more_jobs_than_may_run_at_once_begin_at_once(client: TestClient, coordinator: FakedClusters) -> None:
    begun: list[str] = []

    def begin(job: str, *_: object) -> None:  # as slow as a process is to begin
        if len(begun) < 9:
            begun.append(job)
            answers.append(client.post(f"{BASE}/verifications", json={}).status_code)

    answers: list[int] = []
    coordinator.workers.begin = begin  # type: ignore[method-assign]
    answers.append(client.post(f"{BASE}/verifications", json={}).status_code)
    assert sorted(answers) == [202, 202, 429]


def test_a_restore_from_a_store_that_was_put_back_is_refused(client: TestClient, site: Site) -> None:
    site.source.write("orders", [b"c"])
    site.back_up()
    site.repository.store.delete(site.backup.layout.commit_key(2))
    asked = {"target": "target", "rename": ["orders=again"]}
    answer = client.post(f"{BASE}/restores/plan", json=asked)
    assert (answer.status_code >= 400, answer.json()["error"]["id"]) == (True, "OFF-1307")
    assert client.post(f"{BASE}/restores/plan", json={**asked, "accept_rollback": True}).status_code == 200
