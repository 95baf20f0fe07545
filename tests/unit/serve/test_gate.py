"""What does not get through: strangers, other names, other pages, too much, too slow."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from offsite.groups.report import ShownGroup, ShownGroups, ShownTopic
from offsite.model.errors import BadOption
from offsite.repository.job import JobEnd, JobLayout
from offsite.repository.job_records import JobRecords
from offsite.serve import gate
from offsite.serve.sessions import COOKIE, Sessions
from offsite.serve.tokens import AccessRole, TokenFile, find_requirement, new_token, read_tokens
from offsite.serve.v1 import read
from tests.fake_cluster.site import BACKUP
from tests.unit.serve.conftest import ROLES, SEEING, Connect, FakedClusters

CHECKPOINTS = f"/api/v1/backups/{BACKUP}/checkpoints"


def routes(client: TestClient) -> list[tuple[str, str]]:
    """Every method and path that the coordinator tells of, with its parameters filled."""
    described = client.get("/openapi.json").json()["paths"]
    return [
        (method.upper(), re.sub(r"\{[^}]+\}", "7", path.replace("{backup}", BACKUP)))
        for path, methods in described.items()
        for method in methods
    ]


def test_without_a_token_or_with_a_wrong_one_nothing_is_answered(connect: Connect, tokens: TokenFile) -> None:
    known = routes(connect())
    assert len(known) > 25
    for token in (None, "offsite_wrong", ""):
        client = connect(tokens=tokens, token=token)
        refused = {(method, path): client.request(method, path, json={}).status_code for method, path in known}
        assert set(refused.values()) == {401}, {each: status for each, status in refused.items() if status != 401}


def test_only_reading_is_allowed_to_who_may_read(
    connect: Connect, tokens: TokenFile, secrets: dict[str, str], coordinator: FakedClusters
) -> None:
    client = connect(tokens=tokens, token=secrets["read"])
    for method, path in routes(connect()):
        status = client.request(method, path, json={}).status_code
        needs = find_requirement(method, path)
        may = needs.role in {AccessRole.WATCH, AccessRole.READ} and not needs.records
        assert (status != 403) is may, f"{method} {path}: {status}"
    assert coordinator.begun == []


@pytest.mark.parametrize("rights", [*ROLES, *SEEING])
def test_each_role_may_what_the_table_says_and_nothing_more(
    connect: Connect, tokens: TokenFile, secrets: dict[str, str], coordinator: FakedClusters, rights: str
) -> None:
    """Of every route that is described, with every method that it has."""
    client, name = connect(tokens=tokens, token=secrets[rights]), rights.partition("+")[0]
    role, sees = AccessRole[name.upper()], rights in SEEING
    for method, path in routes(connect()):
        needs, _, records = find_requirement(method, path)
        refused = client.request(method, path, json={}).status_code == 403
        may = needs is None or (role >= needs and (sees or not records))
        assert refused is not may, f"{rights}: {method} {path} needs {needs}, records: {records}"
    if role < AccessRole.OPERATE:
        assert coordinator.begun == []


def test_who_may_watch_sees_no_record_and_no_job(
    connect: Connect, tokens: TokenFile, secrets: dict[str, str], coordinator: FakedClusters
) -> None:
    client = connect(tokens=tokens, token=secrets["watch"])
    seen = set()
    for method, path in routes(connect()):
        if client.request(method, path, json={}).status_code != 403:
            seen.add(path)
    assert not [path for path in seen if {"records", "jobs", "plan", "searches"} & set(path.split("/"))]
    assert client.get("/").status_code == 200
    assert {"/api/v1/status", "/api/v1/backups", f"/api/v1/backups/{BACKUP}"} <= seen
    assert coordinator.begun == []


@pytest.mark.parametrize(("role", "sees"), [("watch", False), ("restore", False), ("read+records", True)])
def test_who_may_see_no_record_sees_nothing_that_an_application_wrote_beside_its_offsets(
    connect: Connect,
    tokens: TokenFile,
    secrets: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    role: str,
    sees: bool,
) -> None:
    topic = ShownTopic(topic="orders", offsets={0: 1}, metadata={0: "ann@example.org"}, lag=0)
    group = ShownGroup(group="billing", kind="classic", state="Empty", topics=(topic,))
    shown = ShownGroups(backup=BACKUP, commit=1, origin="snapshot", groups=(group,), notes=())
    monkeypatch.setattr(read, "show_groups", lambda *_, **__: shown)
    seen = connect(tokens=tokens, token=secrets[role]).get(f"/api/v1/backups/{BACKUP}/groups").text
    assert "billing" in seen
    assert ("ann@example.org" in seen) is sees


@pytest.mark.parametrize("path", ["/api/v1", ""])
@pytest.mark.parametrize("padding", ["", "partition=0&" * 60])
def test_each_look_at_records_is_told_with_who_looked_at_what(
    connect: Connect,
    tokens: TokenFile,
    secrets: dict[str, str],
    caplog: pytest.LogCaptureFixture,
    *,
    path: str,
    padding: str,
) -> None:
    """However long the address is in which the topic stands."""
    caplog.set_level("INFO")
    client = connect(tokens=tokens, token=secrets["read+records"])
    assert client.get(f"{path}/backups/{BACKUP}/records?{padding}topic=orders").status_code == 200
    assert f"looked by=read-records what=records backup={BACKUP} topic=orders" in caplog.text


def test_what_a_search_looks_for_and_finds_is_shown_to_nobody_without_a_line(
    connect: Connect,
    tokens: TokenFile,
    secrets: dict[str, str],
    caplog: pytest.LogCaptureFixture,
    coordinator: FakedClusters,
) -> None:
    client = connect(tokens=tokens, token=secrets["operate+records"])
    begun = client.post(f"/api/v1/backups/{BACKUP}/searches", json={"topic": "orders", "key": "ann@example.org"})
    job = begun.json()["job"]
    ended = JobEnd(id=job, at_ms=1, exit_code=0, result='{"records": ["a letter to ann@example.org"]}', said="")
    JobRecords(store=coordinator.repository().store, layout=JobLayout(job=job)).put_end(
        ended, secret=coordinator.secrets[job]
    )
    caplog.set_level("INFO")
    for method, path in (
        ("GET", "jobs"),
        ("GET", f"jobs/{job}"),
        ("GET", f"jobs/{job}/events"),
        ("POST", f"jobs/{job}/cancel"),
    ):
        caplog.clear()
        shown = client.request(method, f"/api/v1/{path}")
        assert shown.status_code < 300
        assert (
            ("ann@example.org" in shown.text)
            is ("looked by=operate-records" in caplog.text)
            is path.endswith(("/cancel", job))
        )


def test_who_may_operate_takes_checkpoints_and_restores_nothing(
    connect: Connect, tokens: TokenFile, secrets: dict[str, str]
) -> None:
    client = connect(tokens=tokens, token=secrets["operate"])
    assert client.post(CHECKPOINTS, json={}).status_code == 202
    assert client.post(f"/api/v1/backups/{BACKUP}/restores", json={"confirmation": "x"}).status_code == 403
    assert client.delete(f"{CHECKPOINTS}/7?confirmation=x").status_code == 403
    assert client.delete("/actuator/backups/7").status_code == 403


def test_a_coordinator_that_only_shows_changes_nothing(connect: Connect) -> None:
    client = connect(read_only=True)
    assert client.get("/api/v1/status").status_code == 200
    assert client.post(f"/api/v1/backups/{BACKUP}/retention/plan", json={}).status_code == 200
    refused = client.post(CHECKPOINTS, json={})
    assert (refused.status_code, refused.json()["error"]["id"]) == (403, "OFF-1704")


def test_what_no_rule_names_needs_the_most() -> None:
    assert find_requirement("PATCH", "/api/v1/status") == (AccessRole.RESTORE, True, False)
    assert find_requirement("POST", "/api/v1/backups/a/checkpoints/plan/../../b") == (AccessRole.RESTORE, True, False)


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "evil@127.0.0.1", "", "127.0.0.1:x", "localhost/..", "[::1"]
)
def test_it_is_not_called_by_the_name_of_somebody_else(client: TestClient, host: str) -> None:
    assert client.get("/api/v1/status", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8080", "[::1]:9", "LOCALHOST"])
def test_it_is_called_by_the_names_of_this_machine(client: TestClient, host: str) -> None:
    assert client.get("/api/v1/status", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_somebody_else_changes_nothing(
    client: TestClient, headers: dict[str, str], coordinator: FakedClusters
) -> None:
    assert client.post(CHECKPOINTS, json={}, headers=headers).status_code == 403
    assert coordinator.begun == []


def test_a_page_of_ours_does(client: TestClient) -> None:
    headers = {"Origin": "http://127.0.0.1:8080", "Sec-Fetch-Site": "same-origin"}
    assert client.post(CHECKPOINTS, json={}, headers=headers).status_code == 202


def test_a_large_body_is_refused_whether_it_says_so_or_not(client: TestClient) -> None:
    large = b"x" * (gate.BODY_MAX + 1)
    assert client.post(CHECKPOINTS, content=large).status_code == 413
    assert client.post(CHECKPOINTS, content=iter([large[:1000], large])).status_code == 413
    assert client.post(CHECKPOINTS, content=b"", headers={"Content-Length": "-1"}).status_code == 413


def test_a_slow_body_is_given_up(coordinator: FakedClusters, monkeypatch: pytest.MonkeyPatch, connect: Connect) -> None:
    monkeypatch.setattr(gate, "BODY_S", 0.05)
    app, sent = connect().app, []

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": CHECKPOINTS,
        "headers": [(b"host", b"localhost"), (b"content-length", b"9")],
    }
    asyncio.run(app(scope, receive, send))  # type: ignore[arg-type]
    assert sent[0]["status"] == 408
    assert coordinator.begun == []


def test_every_answer_says_how_browsers_are_to_treat_it(client: TestClient) -> None:
    for path in ("/api/v1/status", "/nothing", "/login"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert (headers["X-Frame-Options"], headers["X-Content-Type-Options"]) == ("DENY", "nosniff")
    assert client.get("/api/v1/status").headers["Cache-Control"] == "no-store"


def test_a_session_counts_while_its_name_has_a_token(connect: Connect, tokens: TokenFile) -> None:
    import time

    sessions = Sessions(b"k" * 32)
    client = connect(tokens=tokens)
    for name, status in (("reader", 200), ("nobody", 401)):
        client.cookies.set(COOKIE, sessions.begin(name, now_s=int(time.time()), of=tokens().hash_of(name)))
        assert client.get("/api/v1/status").status_code == status


def test_a_token_file_holds_hashes_alone(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    token = new_token("ann:operate", file)
    assert token not in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    caller = read_tokens(file).authenticate(token)
    assert caller is not None
    assert (caller.name, caller.role) == ("ann", AccessRole.OPERATE)
    with pytest.raises(BadOption, match="has a token of ann"):
        new_token("ann:read", file)


def test_who_is_taken_out_of_the_file_is_shut_out_at_once(
    connect: Connect, tokens: TokenFile, secrets: dict[str, str], tmp_path: Path
) -> None:
    client, file = connect(tokens=tokens, token=secrets["read"]), tmp_path / "tokens"
    assert client.get("/api/v1/status").status_code == 200
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if not line.startswith("reader ")))
    assert client.get("/api/v1/status").status_code == 401
    file.write_text("".join(lines))
    assert client.get("/api/v1/status").status_code == 200
    for broken in ("", "nonsense\n"):
        file.write_text(broken)
        assert client.get("/api/v1/status").status_code == 401
    file.unlink()
    assert client.get("/api/v1/status").status_code == 401


@pytest.mark.parametrize("text", ["", "# nobody\n", "ann read\n", "ann king sha256:" + "0" * 64, "ann read sha256:zz"])
def test_a_token_file_that_says_nothing_sound_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "tokens"
    file.write_text(text)
    with pytest.raises(BadOption, match="token"):
        read_tokens(file)


def test_a_token_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its mode is, its owner can write it, and let himself in. That of root counts."""
    file = tmp_path / "tokens"
    new_token("ann:read", file)
    owner = file.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    if owner == 0:
        assert read_tokens(file).active
        os.chown(file, 12_345, -1)
    with pytest.raises(BadOption, match="can be written by other users"):
        read_tokens(file)


def test_a_token_file_that_others_can_write_counts_for_nobody(
    connect: Connect, tokens: TokenFile, secrets: dict[str, str], tmp_path: Path
) -> None:
    """They could let themselves in."""
    client = connect(tokens=tokens, token=secrets["restore"])
    assert client.get("/api/v1/status").status_code == 200
    (tmp_path / "tokens").write_text((tmp_path / "tokens").read_text() + "\n")
    (tmp_path / "tokens").chmod(0o622)
    assert client.get("/api/v1/status").status_code == 401
