"""What an S3 store does when network or server let it down: a proxy between the two loses answers on purpose."""

from __future__ import annotations

import logging
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from offsite.model.clock import SystemClock
from offsite.model.errors import CommitLost, OverwritingStore, PutOutcomeUnknown, StoreDenied, StoreUnreachable
from offsite.repository.layout import PROBE_KEY
from offsite.repository.repository import Repository
from offsite.stores.object_store import CloudStore
from offsite.stores.open_store import open_store
from offsite.stores.store import PutResult
from offsite.upkeep.collection.run import plan_collection
from offsite.upkeep.retention.apply import plan_retention
from offsite.upkeep.retention.policy import parse_policy
from tests.backups import PARTITIONS, SELECTION, STEP, commit_next, content, new_backup, run_once
from tests.batches import make_log
from tests.s3_servers import ENVIRONMENT, moto_server, new_s3_store

_PASSED_ON = frozenset({"etag", "last-modified", "content-type", "content-range"})


class LossyProxy(ThreadingHTTPServer):
    """Passes requests to `upstream`. `lose_answers` PUTs are carried out and not answered; `refuse` answers every
    request with that status instead; `denies_changes` answers all but reads with 403; `dead_after_put` drops everything
    once a PUT went through; `unconditional` makes every put an overwriting one, as some servers do."""

    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = upstream
        self.lose_answers = 0
        self.refuse = 0
        self.denies_changes = False
        self.dead_after_put = False
        self.dead = False
        self.unconditional = False

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: LossyProxy

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.server.dead:
            self._drop()
            return
        if self.server.refuse or (self.server.denies_changes and self.command not in {"GET", "HEAD"}):
            self._answer(self.server.refuse or 403, b"", {})
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() != "content-length"}
        if self.server.unconditional:
            headers = {name: value for name, value in headers.items() if name.lower() != "if-none-match"}
        headers.setdefault("Content-Type", "application/octet-stream")  # else urllib calls it a form
        request = urllib.request.Request(
            self.server.upstream + self.path, data=body or None, headers=headers, method=self.command
        )
        if self.command == "PUT" and not body:
            request.data = b""
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                status, found, data = answer.status, dict(answer.headers), answer.read()
        except urllib.error.HTTPError as error:
            status, found, data = error.code, dict(error.headers), error.read()
        if self.command == "PUT" and self.server.dead_after_put:
            self.server.dead = True
            self._drop()
        elif self.command == "PUT" and self.server.lose_answers:
            self.server.lose_answers -= 1
            self._drop()
        else:
            self._answer(status, data, found)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _pass_on  # noqa: N815

    def _drop(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _answer(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        kept = {name: value for name, value in headers.items() if name.lower() in _PASSED_ON}
        length = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(data))
        for name, value in {**kept, "Content-Length": length}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    with moto_server() as endpoint:
        yield endpoint


@pytest.fixture
def proxy(upstream: str) -> Iterator[LossyProxy]:
    server = LossyProxy(upstream)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def store(proxy: LossyProxy) -> CloudStore:
    return new_s3_store(proxy.endpoint, max_retries=2, retry_timeout_s=3)


def test_a_lost_answer_is_settled_by_reading_back(store: CloudStore, proxy: LossyProxy) -> None:
    proxy.lose_answers = 1
    assert store.put_if_absent("k", b"content") in (PutResult.CREATED, PutResult.SAME)
    assert proxy.lose_answers == 0
    assert store.get("k") == b"content"


def test_a_lost_answer_to_a_refused_put_stays_a_refusal(store: CloudStore, proxy: LossyProxy) -> None:
    store.put_if_absent("k", b"first")
    proxy.lose_answers = 1
    assert store.put_if_absent("k", b"second") is PutResult.OTHER
    assert store.get("k") == b"first"


def test_an_outcome_that_cannot_be_known_says_so(store: CloudStore, proxy: LossyProxy) -> None:
    proxy.dead_after_put = True
    with pytest.raises(PutOutcomeUnknown):
        store.put_if_absent("k", b"content")
    proxy.dead = proxy.dead_after_put = False
    assert store.get("k") == b"content"


def test_a_commit_whose_answer_was_lost_is_ours_and_the_next_run_goes_on(
    store: CloudStore, proxy: LossyProxy, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="offsite")
    backup = new_backup(store)
    for _ in range(3):
        proxy.lose_answers = 1
        run_once(backup)
    assert [line.split()[2] for line in caplog.messages if line.startswith("put_settled")] == ["result=SAME"] * 3
    base = backup.state()
    run_once(backup)
    with pytest.raises(CommitLost):
        commit_next(backup, base)
    assert content(store, backup.state()) == dict.fromkeys(PARTITIONS, make_log(0, 4 * STEP))


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_server_that_only_fails_is_unreachable(store: CloudStore, proxy: LossyProxy, status: int) -> None:
    proxy.refuse = status
    for act in (
        lambda: store.get("k"),
        lambda: store.head("k"),
        lambda: list(store.list("")),
        lambda: store.put_overwrite("k", b""),
        lambda: store.delete("k"),
    ):
        with pytest.raises(StoreUnreachable):
            act()
    with pytest.raises((StoreUnreachable, PutOutcomeUnknown)):
        store.put_if_absent("k", b"")
    proxy.refuse = 0
    assert store.get("k") is None


@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_denies_is_denied(store: CloudStore, proxy: LossyProxy, status: int) -> None:
    proxy.refuse = status
    for act in (lambda: store.get("k"), lambda: store.put_if_absent("k", b""), lambda: list(store.list(""))):
        with pytest.raises(StoreDenied) as caught:
            act()
        assert "test-secret" not in caught.value.message


def test_whoever_may_only_read_plans_all_the_same(store: CloudStore, proxy: LossyProxy) -> None:
    backup = new_backup(store)
    for _ in range(2):
        run_once(backup)
    proxy.denies_changes = True
    with pytest.raises(StoreDenied):
        store.now_ms()
    looking, clock = backup.read_only(), SystemClock()
    assert plan_retention(looking, parse_policy(keep_age="1d"), clock=clock).is_empty
    assert plan_collection(looking, clock=clock).objects == ()


def test_a_store_that_overwrites_all_the_same_gets_no_repository(store: CloudStore, proxy: LossyProxy) -> None:
    proxy.unconditional = True
    with pytest.raises(OverwritingStore, match="create-only"):
        Repository.init(store)
    assert [info.key for info in store.list("")] == [PROBE_KEY]
    proxy.unconditional = False
    Repository.init(store).create_backup("b", cluster_id="c", selection=SELECTION)


def test_a_repository_that_was_moved_to_such_a_store_takes_no_backup(store: CloudStore, proxy: LossyProxy) -> None:
    repository = Repository.init(store)
    run_once(repository.create_backup("b", cluster_id="c", selection=SELECTION))
    before = {info.key: store.get(info.key) for info in store.list("backups/")}
    proxy.unconditional = True
    for name in ("b", "new"):
        with pytest.raises(OverwritingStore):
            repository.create_backup(name, cluster_id="c", selection=SELECTION)
    assert {info.key: store.get(info.key) for info in store.list("backups/")} == before


def test_a_missing_bucket_and_a_dead_endpoint_are_unreachable(upstream: str) -> None:
    missing = open_store(f"s3://no-such-bucket?endpoint={upstream}", environment=ENVIRONMENT)
    with pytest.raises(StoreUnreachable):
        missing.put_if_absent("k", b"")
    options = (*open_options(), ("aws_endpoint", "http://127.0.0.1:9"))
    dead = CloudStore(url="s3://b", options=options, max_retries=1, retry_timeout_s=1)
    with pytest.raises(StoreUnreachable):
        dead.get("k")


def open_options() -> tuple[tuple[str, str], ...]:
    return tuple((name.lower(), value) for name, value in ENVIRONMENT.items())
