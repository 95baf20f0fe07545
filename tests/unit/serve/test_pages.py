"""Pages: what they show, that every word from outside is escaped, that a form is one of ours."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from offsite.checkpoint.request import request_checkpoint
from offsite.checkpoint.serve import CheckpointServer
from offsite.overview.contents import PartitionDetail, TopicDetail
from offsite.reports.point_report import HoleReport
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.notes import DeclaredNote, put_note
from offsite.repository.json_form import encode_object
from offsite.repository.repository import Repository
from offsite.serve.browsers import Hosts
from offsite.serve.gate import GateRules
from offsite.serve.pages import static_files
from offsite.serve.pages.look import WIDTH, make_bars
from offsite.serve.sessions import COOKIE, Sessions
from offsite.serve.site import Site as Coordinator
from offsite.serve.site import SiteSettings
from offsite.serve.tokens import TokenFile
from offsite.stores.posix_store import open_folder
from tests.fake_cluster.cluster import FakeGroup
from tests.fake_cluster.site import BACKUP, Site
from tests.unit.operator.work.declared import Declared
from tests.unit.serve.conftest import Connect, FakedClusters, behind_gate

BASE = f"/backups/{BACKUP}"
PAGES = (
    "/",
    BASE,
    f"{BASE}/source",
    f"{BASE}/points",
    f"{BASE}/over-time",
    f"{BASE}/checkpoints",
    f"{BASE}/checkpoints/7",
    f"{BASE}/groups",
    f"{BASE}/records",
    f"{BASE}/records?topic=orders",
    f"{BASE}/records/orders/0/1",
    f"{BASE}/records/orders/0/99",
    f"{BASE}/retention",
    f"{BASE}/retention?keep_daily=3",
    f"{BASE}/deleted",
    f"{BASE}/proofs",
    f"{BASE}/restore",
    "/metastores",
    "/declared",
    "/jobs",
    "/login",
)
HTML = {"Accept": "text/html"}
_VOID = {"meta", "link", "input"}


class Tree(HTMLParser):
    """Whether every element that is opened is closed; labels and ids; where things are loaded from."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.labelled: set[str] = set()
        self.fields: list[str] = []
        self.loaded: list[str] = []
        self.inline: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.open += [] if tag in _VOID else [tag]
        self.ids += [found["id"] or ""] if "id" in found else []
        self.labelled |= {found["for"] or ""} if tag == "label" and "for" in found else set()
        if tag in {"input", "select", "textarea"} and found.get("type") != "hidden":
            self.fields.append(found.get("id") or "?")
        self.loaded += [found[name] or "" for name in ("src", "href", "action") if name in found]
        self.inline += [name for name in found if name.startswith("on") or name == "style"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def take(site: Site, checkpoint: int = 7) -> None:
    request_checkpoint(site.backup, checkpoint)
    CheckpointServer(
        repository=site.repository, backup=site.backup, cluster=site.source.connected, runner=site.runner
    ).serve()


def shown(client: TestClient, path: str) -> str:
    answer = client.get(path, headers=HTML)
    assert answer.status_code == 200, answer.text
    return answer.text


def word(client: TestClient, path: str) -> str:
    found = re.search(r'name="word" value="([0-9a-f]{64})"', shown(client, path))
    assert found is not None
    return found[1]


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_sound_and_loads_nothing_from_elsewhere(client: TestClient, site: Site, path: str) -> None:
    take(site)
    text = shown(client, path)
    tree = Tree(text)
    assert tree.open == []
    assert len(set(tree.ids)) == len(tree.ids)
    assert set(tree.fields) <= tree.labelled, "a field without a label"
    assert [each for each in tree.loaded if not each.startswith(("/", "#", "?"))] == []
    assert tree.inline == []
    assert '<html lang="en">' in text
    assert len(text) < 50_000


def test_a_script_of_another_version_has_another_address(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    form = f"/backups/{BACKUP}/restore"
    (before,) = re.findall(r'src="(/static/restore\.js[^"]*)"', shown(client, form))
    changed = tmp_path / "restore.js"
    changed.write_text("// another version\n")
    monkeypatch.setitem(static_files.FILES, "restore.js", (changed, "text/javascript"))
    static_files.static_address.cache_clear()
    (after,) = re.findall(r'src="(/static/restore\.js[^"]*)"', shown(client, form))
    static_files.static_address.cache_clear()
    assert before != after
    assert client.get(after).text == changed.read_text()


def test_the_overview_says_whether_one_is_safe(client: TestClient) -> None:
    assert "Safe, never proven. 1 backup, newest restore point" in shown(client, "/")


def test_the_files_of_metastores_are_told(client: TestClient) -> None:
    assert "Each file is unchanged." in shown(client, "/metastores")
    (found,) = client.get("/api/v1/metastores").json()["backups"]
    assert (found["service"], found["safe"], found["commands"]) == ("x", True, 2)


def test_what_is_wrong_with_a_metastore_is_told(client: TestClient, metastores: Path) -> None:
    (file,) = (each for each in metastores.iterdir() if each.suffix == ".bak")
    file.write_bytes(file.read_bytes().replace(b"S2", b"S9"))
    text = shown(client, "/metastores")
    assert "1 of 1 needs attention" in text
    assert "line 2: command 2 differs from the written command" in text


def test_a_coordinator_without_a_metastore_says_how_to_show_one(client: TestClient, coordinator: FakedClusters) -> None:
    coordinator.settings = replace(coordinator.settings, metastore=None)
    assert 'href="/metastores"' not in shown(client, "/")
    assert client.get("/metastores", headers=HTML).status_code == 400
    assert "--metastore" in client.get("/api/v1/metastores").json()["error"]["hint"]


def test_the_overview_says_what_is_damaged(client: TestClient, site: Site) -> None:
    commit = next(each.key for each in site.repository.store.list("backups/") if "/commits/" in each.key)
    site.repository.store.delete(commit)
    text = shown(client, "/")
    assert "Not safe. 1 of 1 backups needs attention." in text
    assert "damaged" in text


def test_pages_show_what_can_be_read_before_a_commit_of_a_newer_format(client: TestClient, site: Site) -> None:
    site.repository.store.put_if_absent(site.backup.layout.commit_key(2), encode_object({"format": 99}))
    text = shown(client, "/")
    assert "Not safe. 1 of 1 backups needs attention." in text
    assert "format 99" in text
    assert "Commits after commit 1 cannot be used" in shown(client, BASE)
    for path in ("points", "checkpoints", "groups"):
        assert "</main>" in shown(client, f"{BASE}/{path}")
    refused = client.get(f"{BASE}/records?topic=orders", headers=HTML)
    assert (refused.status_code, "format 99" in refused.text) == (503, True)


def test_a_plan_up_to_a_time_says_so_before_its_figures(client: TestClient) -> None:
    form = {"word": word(client, f"{BASE}/restore"), "target": "target", "at": "2026-11-27T14:00Z"}
    text = client.post(f"{BASE}/restore/plan", data=form, headers=HTML).text
    assert "<strong>only records up to 2026-11-27T14:00:00.000Z</strong>" in text
    assert "<dt>Amount</dt><dd>at most 2 records" in text


def test_the_time_of_a_restore_is_asked_for_beside_its_restore_point(client: TestClient) -> None:
    text = shown(client, f"{BASE}/restore?at=2026-11-27T14:00Z")
    assert text.index('id="line"') < text.index('name="at"') < text.index("<legend>Consumer groups")
    assert "the newest restore point, records up to 2026-11-27T14:00Z" in re.sub("<[^>]+>", "", text)


def test_groups_are_shown_with_their_type_and_share_groups_with_their_positions(client: TestClient, site: Site) -> None:
    site.source.groups["workers"] = FakeGroup(kind="share", reset="latest")
    site.source.commit_group("workers", "orders", [1, -1])
    site.back_up()
    text = shown(client, f"{BASE}/groups")
    assert "<td>share</td>" in text
    assert "Delivers again: workers: what was in flight, done out of order, or done last: orders/0 from 1 on" in text
    assert "No position: workers in orders/1: it begins there where share.auto.offset.reset" in text


@pytest.mark.parametrize("is_set", [True, False])
def test_the_plan_of_a_restore_says_where_groups_go_on(client: TestClient, site: Site, *, is_set: bool) -> None:
    site.source.groups["workers"] = FakeGroup(kind="share")
    site.source.commit_group("workers", "orders", [1])
    site.back_up()
    site.target.has_share_groups = site.target.sets_positions = is_set
    form = {"word": word(client, f"{BASE}/restore"), "target": "target", "groups": "all"}
    text = client.post(f"{BASE}/restore/plan", data=form, headers=HTML).text
    assert ("delivers again workers: what was in flight" in text) == is_set
    assert ("Not set: workers: the broker at" in text) == (not is_set)


def test_an_empty_repository_says_what_to_do(tmp_path: Path) -> None:
    made = Repository.init(open_folder(tmp_path / "empty"))
    site = Coordinator(SiteSettings(repo=made.store.url))
    guarded = GateRules(hosts=Hosts.of(()), sessions=Sessions(), tokens=None, read_only=False)
    text = shown(TestClient(behind_gate(site, guarded), base_url="http://localhost"), "/")
    assert "There is no backup yet." in text
    assert made.store.url in text


def test_what_is_not_there_has_a_page_of_its_own(client: TestClient) -> None:
    for path, status in (("/backups/none", 404), ("/nothing", 404), (f"{BASE}/checkpoints/x", 400), ("/jobs/x", 400)):
        answer = client.get(path, headers=HTML)
        assert answer.status_code == status
        assert "<h1>" in answer.text


def test_what_others_wrote_is_shown_and_nothing_else(client: TestClient, site: Site) -> None:
    evil = b"<script>alert(1)</script>\x1b[31m\xe2\x80\xae"
    site.source.write("orders", [evil])
    site.back_up()
    text = shown(client, f"{BASE}/records?topic=orders")
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    for path in (f"{BASE}/records?topic=%3Cb%3E", f"{BASE}?find=%3Cb%3E", f"{BASE}/restore?commit=%22%3E%3Cb%3E"):
        assert "<b>" not in shown(client, path)


def test_a_form_begins_a_job_and_leads_to_its_page(client: TestClient, coordinator: FakedClusters) -> None:
    said = word(client, BASE)
    for path in ("runs", "verifications", "drills", "checkpoints"):
        answer = client.post(f"{BASE}/{path}", data={"word": said})
        assert answer.status_code == 303
        assert "State:" in shown(client, answer.headers["Location"])
    assert [command[0] for _, command in coordinator.begun] == ["backup", "verify", "restore", "checkpoint"]
    job = coordinator.begun[0][0]
    assert client.post(f"/jobs/{job}/cancel", data={"word": said}).status_code == 303
    assert "cancel requested by this machine" in shown(client, f"/jobs/{job}")
    assert "can forge it" in shown(client, f"/jobs/{job}"), "whoever writes jobs into the repository"


def test_a_form_that_is_sent_twice_begins_one_job(client: TestClient, coordinator: FakedClusters) -> None:
    text = shown(client, BASE)
    form = {"word": _value(text, "word"), "once": _value(text, "once")}
    first, second = (client.post(f"{BASE}/drills", data=form).headers["Location"] for _ in range(2))
    assert first == second
    other = {**form, "once": _value(shown(client, BASE), "once")}
    assert client.post(f"{BASE}/drills", data=other).headers["Location"] != first
    assert len(coordinator.begun) == 2


def test_a_search_is_begun_from_the_page_of_records(client: TestClient, coordinator: FakedClusters) -> None:
    said = word(client, f"{BASE}/records")
    assert client.post(f"{BASE}/searches", data={"word": said}, headers=HTML).status_code == 400
    form = {"word": said, "topic": "orders", "key": "", "value": "--yes"}
    assert client.post(f"{BASE}/searches", data=form).status_code == 303
    assert coordinator.begun[0][1][:4] == ("search", f"--backup={BACKUP}", "--topics=orders", "--value=--yes")


def test_a_form_that_is_none_of_ours_does_nothing(client: TestClient, coordinator: FakedClusters) -> None:
    for data in ({}, {"word": ""}, {"word": "0" * 64}, {"word": "é"}):
        answer = client.post(f"{BASE}/runs", data=data, headers=HTML)
        assert answer.status_code == 403, answer.text
    assert client.post(f"{BASE}/runs", content=b"\xff=\xff").status_code in {400, 403}
    assert coordinator.begun == []


def test_a_restore_is_planned_confirmed_and_begun(client: TestClient, coordinator: FakedClusters, site: Site) -> None:
    said = word(client, f"{BASE}/restore")
    form = {"word": said, "target": "target", "rename": "orders=again"}
    plan = client.post(f"{BASE}/restore/plan", data=form)
    assert plan.status_code == 200
    assert "offsite restore run" in plan.text
    assert coordinator.begun == []
    sent = _value(plan.text, "plan")
    wrong = client.post(f"{BASE}/restore", data={"word": said, "plan": sent, "name": "x"}, headers=HTML)
    assert "nothing was done" in wrong.text
    assert coordinator.begun == []
    name = site.target.admin.cluster().cluster_id
    whole = {"word": said, "plan": sent, "name": name, "once": _value(plan.text, "once")}
    done = client.post(f"{BASE}/restore", data=whole)
    assert done.status_code == 303, done.text
    assert coordinator.begun[0][1][:2] == ("restore", "run")
    site.target.make_topic("again", partitions=2)
    again = client.post(f"{BASE}/restore", data=whole)
    assert (again.status_code, again.headers["Location"]) == (303, done.headers["Location"]), "of two clicks"
    assert len(coordinator.begun) == 1


def test_a_plan_that_was_changed_on_its_way_is_refused(
    client: TestClient, coordinator: FakedClusters, site: Site
) -> None:
    said = word(client, f"{BASE}/restore")
    plan = client.post(f"{BASE}/restore/plan", data={"word": said, "target": "target"})
    sent, name = _value(plan.text, "plan"), site.target.admin.cluster().cluster_id
    for changed in (sent.replace('"target": "target"', '"target": "source"'), "{}", "[" * 9_999, sent[:-1]):
        answer = client.post(f"{BASE}/restore", data={"word": said, "plan": changed, "name": name}, headers=HTML)
        assert answer.status_code in {400, 409}, answer.text
    assert coordinator.begun == []


def test_what_cannot_be_planned_is_said_in_the_form(client: TestClient) -> None:
    said = word(client, f"{BASE}/restore")
    for field in ({"commit": "99"}, {"commit": "x"}, {"at": "never"}, {"target": "evil:1"}, {"topics": "none"}):
        answer = client.post(f"{BASE}/restore/plan", data={"word": said, "target": "target", **field})
        assert 'role="alert"' in answer.text, field


def test_who_may_only_read_sees_no_button(connect: Connect, tokens: TokenFile, secrets: dict[str, str]) -> None:
    client = connect(tokens=tokens, token=secrets["read"])
    assert "<form" in shown(connect(), f"{BASE}/checkpoints")
    assert "Take a checkpoint" not in shown(client, f"{BASE}/checkpoints")
    assert "Back up now" not in shown(client, BASE)


def test_a_browser_logs_in_with_a_token_and_out_again(
    connect: Connect, tokens: TokenFile, secrets: dict[str, str]
) -> None:
    client = connect(tokens=tokens)
    away = client.get("/", headers=HTML)
    assert (away.status_code, away.headers["Location"]) == (303, "/login")
    said = word(client, "/login")
    assert client.post("/login", data={"word": said, "token": "offsite_no"}).status_code == 401
    assert client.post("/login", data={"token": secrets["read"]}).status_code == 403
    inside = client.post("/login", data={"word": said, "token": secrets["operate"]})
    assert inside.status_code == 303
    cookie = inside.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert secrets["operate"] not in cookie
    text = shown(client, BASE)
    assert "operateer" in text
    assert secrets["operate"] not in text
    assert client.post(f"{BASE}/runs", data={"word": said}).status_code == 403, "the word of another session"
    kept = client.cookies[COOKIE]
    assert client.post("/logout", data={"word": word(client, BASE)}).status_code == 303
    assert COOKIE not in client.cookies
    client.cookies.set(COOKIE, kept)
    assert client.get(BASE, headers=HTML).status_code == 303, "whoever copied the cookie goes on"


def test_behind_a_proxy_with_tls_the_cookie_never_goes_without_it(
    connect: Connect, tokens: TokenFile, secrets: dict[str, str]
) -> None:
    client = connect(tokens=tokens)
    words = {"word": word(client, "/login"), "token": secrets["read"]}
    host = client.base_url.netloc.decode()
    for scheme, is_secure in (("https", True), ("http", False)):
        inside = client.post("/login", data=words, headers={"Origin": f"{scheme}://{host}"})
        assert ("Secure" in inside.headers["Set-Cookie"]) == is_secure


def test_a_bar_shows_what_is_there_and_what_is_lost() -> None:
    parts = tuple(PartitionDetail(partition=n, start=s, end=e, records=0, stored_bytes=0) for n, s, e in _PARTITIONS)
    topic = replace(_timed("orders", -1, -1), partitions=parts)
    bar = make_bars([topic], [_hole(1, 20, 30)])["orders"]
    assert bar.parts == ((WIDTH * 0.25, WIDTH * 0.25), (WIDTH * 0.5, WIDTH * 0.5))
    assert bar.holes == ((WIDTH * 0.7, WIDTH * 0.1),)
    assert bar.described == "75 of 100 offsets, 1 hole"
    assert make_bars([_empty(topic)], [])["orders"].parts == ()
    assert bar.times is None


def test_the_times_of_all_topics_are_on_one_axis() -> None:
    spans = {"early": (1000, 3000), "late": (4000, 5000), "moment": (5000, 5000), "timeless": (-1, -1)}
    topics = [_timed(name, *span) for name, span in spans.items()]
    found = {name: bar.times for name, bar in make_bars(topics, []).items()}
    assert found == {
        "early": (0, WIDTH / 2),
        "late": (WIDTH * 0.75, WIDTH * 0.25),
        "moment": (WIDTH - 0.5, 0.5),
        "timeless": None,
    }


_PARTITIONS = ((0, 25, 50), (1, 0, 50))


def _hole(partition: int, start: int, end: int) -> HoleReport:
    fields: dict[str, Any] = {"topic": "orders", "partition": partition, "start": start, "end": end, "reason": "gone"}
    return HoleReport(**fields)


def _empty(topic: TopicDetail) -> TopicDetail:
    return replace(topic, partitions=())


def _timed(name: str, oldest_ms: int, newest_ms: int) -> TopicDetail:
    return TopicDetail(
        topic=name,
        topic_id="",
        holds_schemas=False,
        configs={},
        records=0,
        bytes=0,
        stored_bytes=0,
        oldest_record_ms=oldest_ms,
        newest_record_ms=newest_ms,
        partitions=(),
    )


def _value(text: str, name: str) -> str:
    from html import unescape

    found = re.search(rf'name="{name}" value="([^"]*)"', text)
    assert found is not None
    return unescape(found[1])


def test_declared_backups_are_told_with_what_is_not_as_declared(client: TestClient, site: Site) -> None:
    assert "No backup is declared" in shown(client, "/declared")
    declared = Declared(site.repository.store)
    declared.start("nightly")
    told = DeclaredNote(name="shop<b>", at_ms=1, by="x", conditions=(("IncorrectBackupState", "not <whole>"),), queue=2)
    put_note(site.repository.store, declared.layout, told)
    assert "no report from an operator" in shown(client, "/declared"), "what was told long ago may be no more"
    put_note(site.repository.store, declared.layout, replace(told, at_ms=site.repository.store.now_ms()))
    text = shown(client, "/declared")
    assert all(each in text for each in ("shop&lt;b&gt;", "not &lt;whole&gt;", "running", "not reconciled"))
    (found,) = client.get("/api/v1/declared").json()["resources"]
    assert (found["uid"], found["backups"][0]["backup"], found["queue"]) == (declared.uid, "nightly", 2)
    waits = DeclaredNote(name="tick", kind="Schedule", at_ms=told.at_ms, by="x", facts=(("state", "waiting<i>"),))
    put_note(site.repository.store, DeclaredLayout(uid="bbbbbbbb-2"), waits)
    assert all(each in shown(client, "/declared") for each in ("tick", "Schedule", "waiting&lt;i&gt;"))
    site.repository.store.put_overwrite(f"{declared.layout.ledger_prefix}{2:020d}.json", b"{")
    assert "OFF-1302" in shown(client, "/declared")
