"""Several repositories in one coordinator: addresses, what keeps them apart, and the page over all."""

from __future__ import annotations

import asyncio
import functools
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.net.routing import shared_router
from offsite.model.errors import StoreUnreachable
from offsite.overview.source_watch import SourceWatch
from offsite.repository.repository import Repository
from offsite.serve.address import Address, split_path
from offsite.serve.app import routes_of_repository, routes_over_all
from offsite.serve.browsers import Hosts
from offsite.serve.coordinator import REQUESTS_MAX, SeveralRepositories
from offsite.serve.gate import REQUESTS_AT_ONCE, Gate, GateRules, RequestCounter
from offsite.serve.repository_watch import LATE_S, RepositoryWatch
from offsite.serve.sessions import Sessions
from offsite.serve.site import SOURCE, ClusterAddress, SiteSettings
from offsite.serve.site import Site as Coordinator
from offsite.serve.tokens import OWNER, AccessRole, TokenFile, requirement_at
from tests.fake_cluster.site import BACKUP, Site, open_site
from tests.unit.serve.conftest import FakedClusters, client_to
from tests.unit.serve.test_gate import routes
from tests.unit.serve.test_pages import BASE, HTML, PAGES, Tree, shown, take, word
from tests.virtual_time import VirtualClock

PREFIX = "/r/shop"
WHOLE = ("/static/", "/login", "/logout")
"""Pages of the whole coordinator."""
OVER_ALL = ("/", "/login")
SECRET_TOPIC = "vault"

_repository_routes, _routes_over_all = functools.cache(routes_of_repository), functools.cache(routes_over_all)
ConnectAll = Callable[..., TestClient]


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Site]:
    """Another repository, with another topic."""
    with open_site(tmp_path / "bank") as opened:
        opened.source.make_topic(SECRET_TOPIC, partitions=1)
        opened.source.write(SECRET_TOPIC, [b"x"])
        opened.back_up(f"{SECRET_TOPIC}*")
        yield opened


@pytest.fixture
def coordinators(site: Site, bank: Site) -> dict[str, FakedClusters]:
    places = {SOURCE: ClusterAddress(bootstrap="source:9092"), "target": ClusterAddress(bootstrap="target:9092")}
    return {
        name: FakedClusters(SiteSettings(repo=of.repository.store.url, addresses=places, name=name), of)
        for name, of in (("shop", site), ("bank", bank))
    }


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def watches(coordinators: dict[str, FakedClusters], clock: VirtualClock) -> dict[str, RepositoryWatch]:
    by_name = {name: RepositoryWatch(coordinator, clock) for name, coordinator in coordinators.items()}
    for watch in by_name.values():
        watch.look()
    return by_name


@pytest.fixture
def connect_all(watches: dict[str, RepositoryWatch]) -> ConnectAll:
    """Makes a client of the coordinator of all repositories."""

    def client(*, token: str | None = None, **rules: Any) -> TestClient:
        rules_of_all = GateRules(hosts=Hosts.of(()), sessions=Sessions(b"k" * 32), tokens=None, read_only=False)
        guarded = replace(rules_of_all, **rules)
        over_all, of_one = _routes_over_all(), _repository_routes()
        several = SeveralRepositories(watches, whole=over_all, app=of_one)
        gate = Gate(several, guarded, find=several.find)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            over_all.state.guarded = of_one.state.guarded = guarded
            await gate(scope, receive, send)

        return client_to(app, token)

    return client


@pytest.fixture
def both(connect_all: ConnectAll) -> TestClient:
    return connect_all()


def pages_of(name: str) -> list[str]:
    return [f"/r/{name}{path}" for path in PAGES if path not in {"/login", "/metastores"}]


# -- addresses ---------------------------------------------------------------------------------------------------------


def test_every_address_on_a_page_of_a_repository_has_its_prefix_and_nothing_is_of_another(
    both: TestClient, site: Site
) -> None:
    take(site)
    for path in pages_of("shop"):
        text = shown(both, path)
        linked = [link for link in Tree(text).loaded if not link.startswith((*WHOLE, "#", "?"))]
        assert set(linked) - {"/"}, path
        assert [link for link in linked if not link.startswith(f"{PREFIX}/")] == ["/"], f"only the way back: {path}"
        assert SECRET_TOPIC not in text, path
        assert "bank" not in text, path


def test_a_form_leads_to_a_job_of_its_repository_whose_page_follows_it(both: TestClient) -> None:
    begun = both.post(f"{PREFIX}{BASE}/runs", data={"word": word(both, f"{PREFIX}{BASE}")})
    job = begun.headers["location"]
    assert job.startswith(f"{PREFIX}/jobs/")
    assert f'data-events="{PREFIX}/api/v1{job.removeprefix(PREFIX)}/events"' in shown(both, job)


def test_the_api_says_where_a_job_of_a_repository_is(both: TestClient) -> None:
    begun = both.post(f"{PREFIX}/api/v1/backups/{BACKUP}/verifications", json={})
    assert begun.headers["location"] == begun.json()["href"] == f"{PREFIX}/api/v1/jobs/{begun.json()['job']}"
    assert both.get(begun.json()["href"]).json()["id"] == begun.json()["job"]


def test_the_description_of_the_api_names_the_prefix_of_its_repository_alone(both: TestClient) -> None:
    assert [both.get(f"/r/{name}/openapi.json").json()["servers"] for name in ("shop", "bank")] == [
        [{"url": "/r/shop"}],
        [{"url": "/r/bank"}],
    ]
    assert list(both.get("/openapi.json").json()["paths"]) == ["/api/v1/repositories"]


def test_an_address_without_a_slash_is_the_overview(both: TestClient) -> None:
    assert "Safe, never proven. 1 backup" in shown(both, PREFIX)


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("/", Address(path="/")),
        ("/login", Address(path="/login")),
        ("/r/", Address(path="/r/")),
        ("/r/a", Address(repository="a", path="/")),
        ("/r/a/", Address(repository="a", path="/")),
        ("/r/a/backups/b", Address(repository="a", path="/backups/b")),
        ("/r/a/r/b/", Address(repository="a", path="/r/b/")),
        ("/r/a/backups/x..y", Address(repository="a", path="/backups/x..y")),
        ("/r/a/../b/", None),
        ("/r/a/..", None),
        ("/r/a/./b", None),
        ("//r/a/", None),
        ("/r//a/", None),
        ("/r/a//b", None),
        ("/r/a\\..\\b", None),
        ("/r/a/\x00", None),
        ("/r/a/backups/b/records\n", None),
        ("/R/a/", Address(path="/R/a/")),
    ],
)
def test_a_path_has_one_reading_or_none(path: str, address: Address | None) -> None:
    assert split_path(path, path.encode()) == address


@pytest.mark.parametrize("raw", ["/r/%61/backups", "/r/a%2Fbackups", "/%72/a/backups", "/r%2fa/backups"])
def test_an_encoded_prefix_has_two_readings(raw: str) -> None:
    assert split_path("/r/a/backups", raw.encode()) is None


TRICKS = (
    *("/r/shop/../bank/backups", "/r/shop/%2e%2e/bank/", "/r/shop%2f..%2fbank/", "/r/shop/..%2fbank/", "//r/bank/"),
    *("/r/%62ank/", "/r/bank%2f", "/r/shop/..;/bank/", "/r/shop%2fr/bank/", "/r/shop/r/bank/", "/r/./bank/"),
    *("/r/bank%00/", "/r/bank%20/", "/r/bank./", "/r/BANK/", "/r/shop//r/bank/", "/r/shop/%5c..%5cbank/"),
)


def test_no_trick_with_a_path_leads_to_another_repository(both: TestClient) -> None:
    for path in TRICKS:
        status, text = ask_raw(both, path)
        assert status in {400, 404}, f"{path}: {text}"
        assert SECRET_TOPIC not in text, path


def test_no_trick_with_a_path_is_open_to_a_stranger(connect_all: ConnectAll, tokens: TokenFile) -> None:
    client = connect_all(tokens=tokens)
    assert {ask_raw(client, path)[0] for path in TRICKS} == {400, 401}


def ask_raw(client: TestClient, path: str) -> tuple[int, str]:
    """Status and text of the answer to a request for a path that no client has put in order, as uvicorn hands it on."""
    scope = {"type": "http", "method": "GET", "path": unquote(path), "raw_path": path.encode(), "query_string": b""}
    headers = [(b"host", b"127.0.0.1"), (b"accept", b"application/json")]
    answer: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        answer.append(message)

    asyncio.run(client.app({**scope, "headers": headers, "scheme": "http"}, receive, send))  # type: ignore[arg-type]
    return answer[0]["status"], b"".join(message.get("body", b"") for message in answer).decode()


# -- what keeps them apart ---------------------------------------------------------------------------------------------


def test_a_job_of_one_repository_is_unknown_in_another(
    both: TestClient, coordinators: dict[str, FakedClusters]
) -> None:
    job = both.post(f"{PREFIX}/api/v1/backups/{BACKUP}/verifications", json={}).json()["job"]
    assert both.get(f"/r/bank/api/v1/jobs/{job}").status_code == 404
    assert both.get("/r/bank/api/v1/jobs").json()["jobs"] == []
    assert [len(coordinators[name].begun) for name in ("shop", "bank")] == [1, 0]


def test_a_job_gets_the_repository_of_its_page(both: TestClient, coordinators: dict[str, FakedClusters]) -> None:
    environments: list[Any] = []
    for coordinator in coordinators.values():
        coordinator.workers.begin = lambda *arguments: environments.append(arguments[2])  # type: ignore[method-assign]
    for name in ("shop", "bank"):
        both.post(f"/r/{name}/api/v1/backups/{BACKUP}/verifications", json={})
    assert [environment["OFFSITE_REPO"] for environment in environments] == [
        coordinator.settings.repo for coordinator in coordinators.values()
    ]


def test_rules_are_the_same_below_a_prefix_and_no_page_there_is_open(both: TestClient) -> None:
    for method, path in [*routes(TestClient(_repository_routes())), ("GET", "/"), ("POST", f"{BASE}/runs")]:
        assert requirement_at(method, Address(repository="a", path=path)) == requirement_at(method, Address(path=path))
    for path in ("/login", "/static/offsite.css", "/healthz"):
        assert requirement_at("GET", Address(path=path)).role is None
        assert requirement_at("GET", Address(repository="a", path=path)).role is AccessRole.RESTORE
        assert both.get(f"{PREFIX}{path}").status_code == 404


def test_each_role_may_in_a_repository_what_it_may_without_a_prefix(
    connect_all: ConnectAll, tokens: TokenFile, secrets: dict[str, str]
) -> None:
    asked = [("GET", "/jobs"), *(("POST", f"/api/v1{BASE}/{kind}") for kind in ("verifications", "restores"))]
    for role in AccessRole:
        client = connect_all(tokens=tokens, token=secrets[role.name.lower()])
        for method, path in asked:
            needs = requirement_at(method, Address(path=path)).role
            is_refused = client.request(method, f"{PREFIX}{path}", json={}).status_code == 403
            assert is_refused == (needs is None or role < needs), f"{role.name}: {method} {path}"
    for rights, status in (("read", 403), ("read+records", 200)):
        assert connect_all(tokens=tokens, token=secrets[rights]).get(f"{PREFIX}{BASE}/records").status_code == status


def test_a_stranger_cannot_tell_which_repositories_there_are(connect_all: ConnectAll, tokens: TokenFile) -> None:
    client = connect_all(tokens=tokens)
    served, other = (client.get(f"/r/{name}/", headers=HTML) for name in ("bank", "other"))
    assert (served.status_code, served.headers["location"]) == (other.status_code, other.headers["location"])
    assert [client.get(f"/r/{name}/api/v1/status").status_code for name in ("bank", "other")] == [401, 401]


def test_an_unknown_repository_has_no_page(both: TestClient) -> None:
    answer = both.get("/r/other/", headers=HTML)
    assert (answer.status_code, "There is no such page" in answer.text) == (404, True)


def test_a_read_only_repository_is_beside_others(both: TestClient, coordinators: dict[str, FakedClusters]) -> None:
    coordinators["bank"].settings = replace(coordinators["bank"].settings, read_only=True)
    refused, begun = (both.post(f"/r/{name}/api/v1{BASE}/verifications", json={}) for name in ("bank", "shop"))
    assert (refused.status_code, begun.status_code) == (403, 202)
    assert refused.json()["error"]["message"] == "repository bank is read-only"
    assert "Back up now" not in shown(both, f"/r/bank{BASE}")
    assert "Back up now" in shown(both, f"{PREFIX}{BASE}")


def test_a_repository_whose_requests_hang_leaves_the_others_their_threads() -> None:
    async def course() -> list[int]:
        released = asyncio.Event()

        async def app(scope: Scope, _: Receive, send: Send) -> None:
            if scope["state"]["site"].settings.name == "shop":
                await released.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})

        watches = {
            name: RepositoryWatch(Coordinator(SiteSettings(repo="/nowhere", name=name)), VirtualClock())
            for name in ("shop", "bank")
        }
        several = SeveralRepositories(watches, whole=app, app=app)
        statuses: list[int] = []

        async def ask(name: str) -> None:
            async def send(message: Message) -> None:
                if message["type"] == "http.response.start":
                    statuses.append(message["status"])

            state = {"address": Address(repository=name, path="/"), "caller": OWNER}
            await several({"type": "http", "path": f"/r/{name}/", "state": state}, asyncio.Queue().get, send)

        hanging = [asyncio.create_task(ask("shop")) for _ in range(REQUESTS_MAX)]
        await asyncio.sleep(0)
        await ask("shop")
        await ask("bank")
        released.set()
        await asyncio.gather(*hanging)
        await ask("shop")
        return statuses

    assert asyncio.run(course()) == [429, 200, *[200] * REQUESTS_MAX, 200]


def test_nothing_is_kept_of_requests_that_are_over() -> None:
    turns = RequestCounter()
    for name in ("ann in shop", "ann in nowhere"):
        assert turns.take(name)
        turns.give_back(name)
    assert not len(turns)


def test_a_repository_whose_requests_hang_takes_no_turn_of_a_caller_in_the_others() -> None:
    async def course() -> list[int]:
        released, statuses = asyncio.Event(), list[int]()

        async def app(scope: Scope, _: Receive, send: Send) -> None:
            if scope["state"]["address"].repository == "shop":
                await released.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})

        rules = GateRules(hosts=Hosts.of(()), sessions=Sessions(b"k" * 32), tokens=None, read_only=False)
        gate = Gate(app, rules, find=lambda scope: split_path(scope["path"], scope["raw_path"]))

        async def ask(name: str) -> None:
            async def send(message: Message) -> None:
                if message["type"] == "http.response.start":
                    statuses.append(message["status"])

            async def receive() -> Message:
                return {"type": "http.request"}

            path = f"/r/{name}/jobs"
            request = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b""}
            await gate({**request, "headers": [(b"host", b"127.0.0.1")]}, receive, send)

        hanging = [asyncio.create_task(ask("shop")) for _ in range(REQUESTS_AT_ONCE)]
        await asyncio.sleep(0.01)
        await ask("shop")
        await ask("bank")
        released.set()
        await asyncio.gather(*hanging)
        return statuses

    assert asyncio.run(course()) == [429, 200, *[200] * REQUESTS_AT_ONCE]


# -- the page over all -------------------------------------------------------------------------------------------------


def rows(text: str) -> list[str]:
    return re.findall(r"<tr><th scope=\"row\">.*?</tr>", text, re.DOTALL)


def test_the_first_page_has_a_row_for_each_repository(both: TestClient, clock: VirtualClock) -> None:
    clock.sleep(4)
    text = shown(both, "/")
    tree = Tree(text)
    assert tree.open == tree.inline == []
    assert "Safe, not all proven. 2 repositories. Never verified nor drilled here: bank, shop." in text
    for row, name in zip(rows(text), ("bank", "shop"), strict=True):
        assert f'<a href="/r/{name}/">{name}</a>' in row
        assert "Safe, never proven. 1 backup, newest restore point" in row
        assert "4.0 s ago" in row


def test_a_lost_topic_is_first_in_red_with_the_way_back(
    both: TestClient, coordinators: dict[str, FakedClusters], site: Site
) -> None:
    clock = VirtualClock()
    coordinators["shop"].watch = SourceWatch(
        open_cluster=lambda: ClusterAdmin(shared_router(site.source.config), clock=clock),
        list_backups=lambda: [BACKUP],
        open_backup=coordinators["shop"].cached_backup,
        clock=clock,
    )
    del site.source.topics["orders"]
    coordinators["shop"].watch.look()
    text = shown(both, "/")
    assert "Lost at the source of shop: orders (gone)." in text
    assert "1 of 2 repositories needs attention: shop." in text
    first, _ = rows(text)
    (link,) = re.findall(r'class="button" href="([^"]+)">Restore orders<', first)
    assert link.startswith(f"{PREFIX}{BASE}/restore?")
    assert 'value="orders"' in shown(both, unescape(link))
    (loss,) = both.get("/api/v1/repositories").json()["repositories"][0]["losses"]
    assert (loss["backup"], loss["topic"], loss["state"]) == (BACKUP, "orders", "gone")


def test_a_repository_that_cannot_be_opened_is_a_row_and_hides_nothing(
    both: TestClient, watches: dict[str, RepositoryWatch], coordinators: dict[str, FakedClusters], tmp_path: Path
) -> None:
    settings = replace(coordinators["bank"].settings, repo=str(tmp_path / "nothing"))
    watches["bank"] = broken = RepositoryWatch(Coordinator(settings), VirtualClock())
    broken.look()
    first, second = rows(shown(both, "/"))
    assert '<span class="tag bad">not read</span> OFF-1001: ' in first
    assert "never read" in first
    assert "Safe, never proven" in second
    assert both.get("/r/bank/", headers=HTML).status_code == 503
    assert shown(both, f"{PREFIX}/")


def test_a_repository_that_fails_later_keeps_what_was_read_and_says_how_old_it_is(
    both: TestClient, watches: dict[str, RepositoryWatch], coordinators: dict[str, FakedClusters], clock: VirtualClock
) -> None:
    def fail() -> Repository:
        raise StoreUnreachable("the store did not answer")

    clock.sleep(90)
    coordinators["bank"].repository = fail  # type: ignore[method-assign]
    for watch in watches.values():
        watch.look()
    first, second = rows(shown(both, "/"))
    assert "the store did not answer</div><div>When it was last read: Safe, never proven." in first
    assert "1 min 30 s ago" in first
    assert "1.0 s ago" in second
    assert both.get("/api/v1/repositories").json()["safe"] is False


def test_a_repository_that_hangs_holds_nobody_up(
    both: TestClient, watches: dict[str, RepositoryWatch], coordinators: dict[str, FakedClusters], clock: VirtualClock
) -> None:
    released, opened = threading.Event(), coordinators["bank"].repository

    def hang() -> Repository:
        assert released.wait(60)
        return opened()

    coordinators["bank"].repository = hang  # type: ignore[method-assign]
    thread = threading.Thread(target=watches["bank"].look)
    thread.start()
    try:
        clock.sleep(LATE_S + 1)
        text = shown(both, "/")
        assert "the reading that began 31.0 s ago has not ended" in text
        assert "When it was last read: Safe, never proven." in text
        assert "Safe, never proven" in shown(both, f"{PREFIX}/")
    finally:
        released.set()
        thread.join()
    assert "the reading that began" not in shown(both, "/")


def test_a_mistake_of_ours_in_one_repository_is_told_and_ends_nothing(
    both: TestClient, watches: dict[str, RepositoryWatch], coordinators: dict[str, FakedClusters]
) -> None:
    def fail() -> Repository:
        raise ZeroDivisionError

    coordinators["bank"].repository = fail  # type: ignore[method-assign]
    watches["bank"].look()
    assert "a mistake of offsite; see the log" in shown(both, "/")


def test_what_nobody_has_read_yet_is_no_verdict(both: TestClient, watches: dict[str, RepositoryWatch]) -> None:
    watches["bank"] = RepositoryWatch(watches["bank"].site, VirtualClock())
    first, _ = rows(shown(both, "/"))
    assert "Nothing was read yet." in first
    (bank, shop) = both.get("/api/v1/repositories").json()["repositories"]
    assert (bank["repository"], bank["verdict"], bank["safe"], bank["age_s"]) == ("bank", "UNREAD", False, None)
    assert (shop["repository"], shop["safe"]) == ("shop", True)


def test_who_may_watch_sees_the_page_over_all(
    connect_all: ConnectAll, tokens: TokenFile, secrets: dict[str, str]
) -> None:
    assert "2 repositories" in shown(connect_all(token=secrets["watch"], tokens=tokens), "/")
    stranger = connect_all(tokens=tokens)
    assert stranger.get("/", headers=HTML).headers["location"] == "/login"
    assert stranger.get("/api/v1/repositories").status_code == 401
    assert "bank" not in shown(stranger, "/login")
