"""Callers who are limited to backups, to topics, and in time."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fastapi.routing import APIRoute
from starlette.testclient import TestClient

from offsite.backup.options import BackupRequest
from offsite.backup.plan import plan_backup
from offsite.backup.run import run_backup
from offsite.jobs.ask import SEARCH, JobRequest, request_job
from offsite.model.clock import SystemClock
from offsite.model.errors import BadOption
from offsite.model.selection import parse_selection
from offsite.serve.access_scope import AccessScope, parse_scope
from offsite.serve.repository_watch import RepositoryWatch
from offsite.serve.tokens import TokenFile, new_token, read_tokens
from tests.fake_cluster.site import BACKUP, Site
from tests.unit.serve.conftest import Connect, _routes
from tests.unit.serve.test_gate import routes
from tests.unit.serve.test_pages import HTML, PAGES, word
from tests.unit.serve.test_several import ConnectAll, bank, clock, connect_all, coordinators, watches

__all__ = ["bank", "clock", "connect_all", "coordinators", "watches"]
OTHER, OTHER_TOPIC, ABSENT = "hidden7", "ledger7", "absent9"
BASE = f"/api/v1/backups/{BACKUP}"
WITHIN = {"backups": BACKUP}


@pytest.fixture
def other_backup(site: Site) -> Site:
    """Another backup of the same source, with a topic of its own and a job."""
    site.source.make_topic(OTHER_TOPIC, partitions=1)
    site.source.write(OTHER_TOPIC, [b"x"])
    request = BackupRequest(backup=OTHER, selection=parse_selection([OTHER_TOPIC]))
    plan = plan_backup(site.repository, site.source.admin, request, slots=2)
    run_backup(plan, repository=site.repository, kafka=site.source.config, runner=site.runner)
    return site


def asked_for(site: Site, backup: str, kind: str = "verify", arguments: tuple[str, ...] = ()) -> str:
    return request_job(site.repository.store, JobRequest(kind=kind, arguments=arguments, backup=backup, by="ann")).id


def client_of(connect: Connect, folder: Path, role: str = "restore+records", **limits: str) -> TestClient:
    """A client with a new token of its own."""
    token = new_token(f"limited:{role}", folder / "limited", **limits)
    return connect(tokens=TokenFile(folder / "limited"), token=token)


# -- lines of the token file -------------------------------------------------------------------------------------------


def test_a_line_says_what_a_token_is_limited_to(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    new_token("ann:read+records", file, backups="shop,main/pay*", topics="orders-*,payments", until="2026-12-31")
    line = file.read_text()
    assert " read+records backups=shop,main/pay* topics=orders-*,payments until=2026-12-31 sha256:" in line
    caller = read_tokens(file).active[0].caller
    assert caller.scope == AccessScope(backups=("shop", "main/pay*"), topics=("orders-*", "payments"))
    file.write_text(line.replace(" backups=shop,main/pay* topics=orders-*,payments", " topics=a  backups=b"))
    assert read_tokens(file).active[0].caller.scope == AccessScope(backups=("b",), topics=("a",))


@pytest.mark.parametrize(
    "limit",
    [
        "backups=",
        "backups=a,,b",
        "backups=a/b/c",
        "backups=a b",
        "topics=a/b",
        "topics=regex:.*",
        "topics=****",
        "topics=[a]",
        "until=2026-13-01",
        "until=tomorrow",
        "until=2026-12-31T10:00",
        "backups=a backups=b",
        "groups=a",
        "topics=\N{CYRILLIC SMALL LETTER A}",
    ],
)
def test_a_limit_that_cannot_be_read_is_refused(tmp_path: Path, limit: str) -> None:
    (file := tmp_path / "tokens").write_text(f"ann read {limit} sha256:{'0' * 64}\n")
    with pytest.raises(BadOption):
        read_tokens(file)


def test_patterns_match_whole_names_and_a_slash_names_the_repository() -> None:
    scope = parse_scope(["shop", "main/pay*", "*/all?"], ["orders-*"], "line 1")
    matching = [("main", "shop"), ("", "shop"), ("main", "payments"), ("x", "all1")]
    others = [("main", "shop2"), ("main", "xshop"), ("other", "payments"), ("x", "all12"), ("", "SHOP")]
    assert all(scope.allows_backup(*place) for place in matching)
    assert not any(scope.allows_backup(*place) for place in others)
    assert scope.allows_topic("orders-eu")
    assert not scope.allows_topic("my-orders-eu")
    assert not parse_scope(["main/*"], [], "").allows_repository("other")


# -- backups -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("other_backup")
def test_no_answer_of_any_route_names_a_backup_beyond_the_limit(connect: Connect, tmp_path: Path, site: Site) -> None:
    hidden, seen = asked_for(site, OTHER), asked_for(site, BACKUP)
    everything = connect()
    paths = [path for method, path in routes(everything) if method == "GET"] + list(PAGES)
    assert any(OTHER in everything.get(path).text for path in paths)
    client = client_of(connect, tmp_path, **WITHIN)
    for path in [*paths, f"/api/v1/jobs/{seen}", f"/jobs/{seen}"]:
        answer = client.get(path, headers=HTML if "/api/" not in path else {})
        assert not {OTHER, OTHER_TOPIC, hidden} & set(re.findall(r"[\w-]+", answer.text)), path
    assert client.get("/api/v1/status").json()["backups"][0]["backup"] == BACKUP
    assert [job["id"] for job in client.get("/api/v1/jobs").json()["jobs"]] == [seen]


def routes_of_backups() -> list[tuple[str, str]]:
    """Every method and path below a backup, of pages and API, with its parameters filled: `{backup}` stays."""
    filled = {"checkpoint": "7", "topic": "orders", "partition": "0", "offset": "0", "part": "key", "step": "plan"}
    routers = [included.original_router for included in _routes().routes if hasattr(included, "original_router")]
    return [
        (
            method,
            ("/api/v1" if route.include_in_schema else "")
            + re.sub(r"\{(?!backup)([^}:]+)[^}]*\}", lambda name: filled[name[1]], route.path),
        )
        for router in routers
        for route in router.routes
        if isinstance(route, APIRoute) and "{backup}" in route.path
        for method in route.methods
    ]


@pytest.mark.usefixtures("other_backup")
def test_a_backup_beyond_the_limit_is_answered_like_an_absent_one(connect: Connect, tmp_path: Path) -> None:
    """Also where somebody would begin it, or where a name fits the limit and is absent."""
    client = client_of(connect, tmp_path, **WITHIN)
    form, absent_ones = {"word": word(client, "/jobs"), "topic": "a"}, 0
    assert len(routes_of_backups()) > 40
    for method, path in routes_of_backups():
        body = {"json": {"topic": "a"} if "searches" in path else {}} if "/api/" in path else {"data": form}
        sent = {} if method in {"GET", "DELETE"} else body
        refused, absent = (
            client.request(method, path.replace("{backup}", name), **sent)  # type: ignore[arg-type]
            for name in (OTHER, ABSENT)
        )
        same = (refused.status_code, refused.text.replace(OTHER, ABSENT)) == (absent.status_code, absent.text)
        assert same, f"{method} {path}: {refused.text}"
        assert refused.status_code in {303, 400, 404}, f"{method} {path}: {refused.text}"
        absent_ones += refused.status_code == 404
    assert absent_ones > 30


@pytest.mark.usefixtures("other_backup")
def test_jobs_of_other_backups_are_neither_seen_nor_followed_nor_cancelled(
    connect: Connect, tmp_path: Path, site: Site
) -> None:
    hidden, seen = asked_for(site, OTHER), asked_for(site, BACKUP)
    client = client_of(connect, tmp_path, **WITHIN)
    form = {"word": word(client, "/jobs")}
    for job, status in ((hidden, 404), (seen, 202)):
        assert client.get(f"/api/v1/jobs/{job}").status_code == (404 if status == 404 else 200)
        assert client.post(f"/api/v1/jobs/{job}/cancel").status_code == status
        assert client.post(f"/jobs/{job}/cancel", data=form).status_code == (404 if status == 404 else 303)
    absent = f"{hidden[:-8]}00000000"
    for path in ("/api/v1/jobs/{}", "/api/v1/jobs/{}/events", "/jobs/{}", "/jobs/{}/proof.html"):
        refused, missing = (client.get(path.format(job)) for job in (hidden, absent))
        assert (refused.status_code, refused.text.replace(hidden, absent)) == (404, missing.text), path
    assert connect().get(f"/api/v1/jobs/{hidden}").json()["cancelled_by"] == ""


@pytest.mark.usefixtures("other_backup")
def test_the_management_api_knows_the_backups_within_the_limit(connect: Connect, tmp_path: Path) -> None:
    assert client_of(connect, tmp_path, backups=BACKUP).get("/actuator/backups").status_code == 200
    (tmp_path / "limited").unlink()
    refused = client_of(connect, tmp_path, backups=OTHER).get("/actuator/backups")
    assert (refused.status_code, BACKUP in refused.json()["message"].partition("(there")[2]) == (400, False)


def test_a_limited_caller_begins_no_backup(connect: Connect, tmp_path: Path) -> None:
    """It could be one of topics of others, whose records he could read then."""
    client = client_of(connect, tmp_path, backups="night*")
    assert client.post("/api/v1/backups/nightly2/runs", json={"topics": ["*"]}).status_code == 404
    assert client.post(f"{BASE}/runs", json={}).status_code == 202


def test_what_concerns_everything_needs_a_caller_without_a_limit(connect: Connect, tmp_path: Path) -> None:
    client = client_of(connect, tmp_path, **WITHIN)
    for path in ("/api/v1/doctor", "/api/v1/metastores", "/metastores"):
        assert client.get(path).status_code == 403, path
    assert "/metastores" not in client.get("/").text


def test_a_page_over_several_repositories_shows_those_within_the_limit(connect_all: ConnectAll, tmp_path: Path) -> None:
    client = client_of(connect_all, tmp_path, backups=f"shop/{BACKUP}")
    shown = client.get("/api/v1/repositories").json()
    assert [row["repository"] for row in shown["repositories"]] == ["shop"]
    assert "bank" not in client.get("/").text
    assert client.get(f"/r/shop/api/v1/backups/{BACKUP}").status_code == 200
    for path in ("/", "/api/v1/status", f"/api/v1/backups/{BACKUP}"):
        refused, absent = (client.get(f"/r/{name}{path}") for name in ("bank", "other"))
        assert (refused.status_code, refused.text.replace("bank", "other")) == (404, absent.text)


@pytest.mark.parametrize("limit", [BACKUP, "absent"])
def test_what_was_not_read_of_the_limit_is_not_safe(
    connect_all: ConnectAll, watches: dict[str, RepositoryWatch], tmp_path: Path, limit: str
) -> None:
    client = client_of(connect_all, tmp_path, backups=limit)
    for name in ("bank", "shop"):
        watches[name] = RepositoryWatch(watches[name].site, SystemClock())
        assert client.get("/api/v1/repositories").json()["safe"] is False
        assert "Not known: not everything was read yet." in client.get("/").text


# -- topics ------------------------------------------------------------------------------------------------------------


def test_records_and_searches_stay_within_the_topics(connect: Connect, tmp_path: Path, site: Site) -> None:
    site.source.make_topic("orders-secret", partitions=1)
    site.back_up()
    client = client_of(connect, tmp_path, topics="orders,al*")
    form = {"word": word(client, f"/backups/{BACKUP}/records")}
    for path in (BASE, f"/backups/{BACKUP}"):
        assert client.get(f"{path}/records?topic=orders").status_code == 200
        for topic in ("orders-secret", "orders*", "regex:.*", "*", "all", "orders,orders-secret", "none"):
            shown = client.get(f"{path}/records", params={"topic": topic})
            assert (shown.status_code, "is limited to topics" in shown.text) == (403, True), topic
            sent = {"json": {"topic": topic}} if path == BASE else {"data": {**form, "topic": topic}}
            assert client.post(f"{path}/searches", **sent).status_code == 403, topic  # type: ignore[arg-type]
        for place in ("orders-secret/0/0", "orders-secret/0/0/value"):
            assert client.get(f"{path}/records/{place}").status_code in {403, 404}, place
            assert client.get(f"{path}/records/{place.replace('-secret', '')}").status_code != 403, place
    assert client.post(f"{BASE}/searches", json={"topics": ["orders", "payments"]}).status_code == 403
    assert client.post(f"{BASE}/searches", json={"topic": "orders", "partitions": ["payments:0"]}).status_code == 403


def test_a_search_of_another_topic_shows_neither_words_nor_result(connect: Connect, tmp_path: Path, site: Site) -> None:
    jobs = {
        topic: asked_for(site, BACKUP, SEARCH, ("search", f"--topics={topic}", "--key=ann@example.org"))
        for topic in ("orders", "payments", "orders,payments")
    }
    client = client_of(connect, tmp_path, topics="orders*")
    for topic, job in jobs.items():
        assert ("ann@example.org" in client.get(f"/api/v1/jobs/{job}").text) is (topic == "orders")
        text = client.get(f"/jobs/{job}").text
        assert ("ann@example.org" in text) is (topic == "orders")
        assert ("shown to who may see all its topics (limited: topics=orders*)" in text) is (topic != "orders")


def test_a_restore_reads_and_writes_the_topics_within_the_limit(connect: Connect, tmp_path: Path) -> None:
    client = client_of(connect, tmp_path, topics="orders,orders-*")
    beyond: tuple[dict[str, object], ...] = (
        {},
        {"topics": []},
        {"topics": ["orders", "payments"]},
        {"topics": ["order*"]},
        {"topics": ["all"]},
        {"topics": ["orders"], "rename": ["orders=payments"]},
        {"topics": ["orders"], "rename": ["*=orders"]},
        {"topics": ["orders"], "partitions": ["orders:0,payments:1"]},
        {"topics": ["orders"], "metadata": "all"},
    )
    for words in beyond:
        sent = {**words, "target": "target"}
        assert client.post(f"{BASE}/restores/plan", json=sent).status_code == 403, words
        assert client.post(f"{BASE}/restores", json={**sent, "confirmation": "x"}).status_code == 403, words
    within = {"topics": ["orders"], "rename": ["orders=orders-2"], "target": "target"}
    assert client.post(f"{BASE}/restores/plan", json=within).status_code == 200


def test_what_holds_all_topics_is_not_deleted_and_groups_are_not_moved(connect: Connect, tmp_path: Path) -> None:
    client = client_of(connect, tmp_path, topics="orders")
    confirmed = {"confirmation": "x"}
    assert client.post(f"{BASE}/retention", json={**confirmed, "now_ms": 1}).status_code == 403
    assert client.post(f"{BASE}/groups/plan", json={}).status_code == 403
    assert client.post(f"{BASE}/groups", json=confirmed).status_code == 403
    assert client.delete(f"{BASE}/checkpoints/7?confirmation=x").status_code == 403
    assert client.delete("/actuator/backups/7").status_code == 403


# -- time --------------------------------------------------------------------------------------------------------------


class Clock(SystemClock):
    now_s = 0

    def now_ms(self) -> int:
        return self.now_s * 1000


def test_a_token_counts_up_to_the_end_of_its_last_day_and_its_session_with_it(connect: Connect, tmp_path: Path) -> None:
    token = new_token("ann:read", tmp_path / "tokens", until="2026-12-31")
    clock, end_s = Clock(), 1_798_761_600  # 2027-01-01, UTC
    clock.now_s = end_s - 1
    tokens = TokenFile(tmp_path / "tokens")
    program, browser = connect(tokens=tokens, token=token, clock=clock), connect(tokens=tokens, clock=clock)
    browser.post("/login", data={"word": word(browser, "/login"), "token": token})
    assert [client.get("/api/v1/status").status_code for client in (program, browser)] == [200, 200]
    clock.now_s = end_s
    assert [client.get("/api/v1/status").status_code for client in (program, browser)] == [401, 401]
    assert browser.post("/login", data={"word": word(browser, "/login"), "token": token}).status_code == 401


def test_a_refusal_quotes_the_line_with_its_limits(connect: Connect, tmp_path: Path) -> None:
    client = client_of(connect, tmp_path, "read", backups=BACKUP, until="2999-12-31")
    hint = client.post(f"{BASE}/runs", json={}).json()["error"]["hint"]
    assert f"limited operate backups={BACKUP} until=2999-12-31 sha256:" in hint
