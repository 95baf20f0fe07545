"""A TCP proxy in front of the brokers of a cluster, which answers as rules say and as a real broker otherwise.

Every broker has a port of the proxy. Answers that name brokers are rewritten, so that a client which begins at the
proxy never leaves it. Each connection is served in step, by one thread: a request, its answer, the next request.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from offsite.kafka.config import BrokerAddress, parse_bootstrap
from offsite.kafka.protocol.request import Api
from tests.misbehaving_broker.exchange import Exchange, Link
from tests.misbehaving_broker.messages import ANSWERS, HungUpError, Request, read_frame
from tests.misbehaving_broker.rules import Hit, Rule, Rulebook

_HOST = "127.0.0.1"
_NAMES_BROKERS = frozenset({Api.METADATA, Api.FIND_COORDINATOR, 60})  # 60: DescribeCluster
_REWRITTEN = frozenset({Api.API_VERSIONS, *_NAMES_BROKERS})
_HIGHEST = {Api.FETCH: 15, Api.PRODUCE: 9}  # later ones name brokers as well
_CONNECT_TIMEOUT_S = 10
_NO_TOPIC = UUID(int=0)


class MisbehavingBrokers:
    """`bootstrap` (`host:port,…`) is where the real brokers are. Behaves until `misbehave` is called. `fetch_bytes`: no
    Fetch brings more than that, or one batch, so that small topics take many fetches as well."""

    def __init__(self, bootstrap: str, *, seed: int = 0, fetch_bytes: int | None = None) -> None:
        self._fetch_bytes = fetch_bytes
        self._book = Rulebook(seed)
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._ports: dict[BrokerAddress, int] = {}
        self._listeners: list[socket.socket] = []
        self._links: set[Link] = set()
        self._threads: list[threading.Thread] = []
        self._topic_names: dict[UUID, str] = {}
        ports = [self._front(address) for address in parse_bootstrap(bootstrap)]
        self.bootstrap = ",".join(f"{_HOST}:{port}" for port in ports)

    @property
    def hits(self) -> list[Hit]:
        """The faults that happened since the rules were set."""
        return list(self._book.hits)

    def misbehave(self, *rules: Rule, seed: int | None = None) -> None:
        """From now on answer as these rules say; earlier ones are gone. `seed` sets the randomness anew."""
        self._book.replace(rules, seed=seed)

    def behave(self) -> None:
        """No rules any more, and no connection that suffered from one: all are cut."""
        self._book.replace(())
        self.cut_all()

    def cut_all(self) -> None:
        with self._lock:
            links = list(self._links)
        for link in links:
            _hang_up(link.client, link.server)

    def close(self) -> None:
        self._ended.set()
        for listener in self._listeners:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self.cut_all()
        for thread in list(self._threads):
            thread.join(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _front(self, broker: BrokerAddress) -> int:
        """The proxy's port for that broker, opened when it is met first."""
        with self._lock:
            if broker not in self._ports:
                listener = socket.create_server((_HOST, 0), backlog=64)
                self._listeners.append(listener)
                self._ports[broker] = listener.getsockname()[1]
                self._start(self._accept, listener, broker)
            return self._ports[broker]

    def _start(self, target: Any, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads = [each for each in self._threads if each.is_alive()]
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket, broker: BrokerAddress) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with self._lock:
                    self._start(self._serve, client, broker)

    def _serve(self, client: socket.socket, broker: BrokerAddress) -> None:
        try:
            server = socket.create_connection((broker.host, broker.port), timeout=_CONNECT_TIMEOUT_S)
        except OSError:  # a broker that is down: the client sees its connection end
            client.close()
            return
        server.settimeout(None)
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = Link(client, server, ended=self._ended, fetch_bytes=self._fetch_bytes)
        with self._lock:
            self._links.add(link)
        try:
            self._converse(link)
        except (HungUpError, OSError):
            pass
        finally:
            with self._lock:
                self._links.discard(link)
            _hang_up(client, server)
            client.close()
            server.close()

    def _converse(self, link: Link) -> None:
        while not self._ended.is_set():
            request = Request(read_frame(link.client), self._topic_names)
            exchange = Exchange(link, request, random=self._book.draw(), after_asking=self._rewritten)
            if link.dead:
                continue
            if not request.is_answered:
                exchange.pass_on()
            elif link.deaf:
                exchange.ask()
            elif fault := self._book.choose(request):
                fault(exchange)
            else:
                exchange.reply(exchange.ask())

    def _rewritten(self, request: Request, answer: bytes) -> bytes:
        if request.api not in _REWRITTEN:
            return answer
        body = request.decoded(answer)
        if request.api == Api.API_VERSIONS:
            if body.error_code:
                return answer  # said in version 0, whatever was asked
            _limit_versions(body)
        else:
            self._rename_brokers(request.api, body)
        return request.encoded(answer, body)

    def _rename_brokers(self, api: int, body: Any) -> None:
        for topic in getattr(body, "topics", None) or ():
            if getattr(topic, "topic_id", None) not in (None, _NO_TOPIC):
                self._topic_names[topic.topic_id] = topic.name
        named = body.brokers if api != Api.FIND_COORDINATOR else [body, *(body.coordinators or ())]
        for each in named:
            if each.host and each.port and each.port > 0:
                each.port = self._front(BrokerAddress(host=each.host, port=each.port))
                each.host = _HOST


def _limit_versions(body: Any) -> None:
    """Nothing is promised that the proxy could not read."""
    for each in body.api_keys:
        if each.api_key in ANSWERS:
            highest = _HIGHEST.get(each.api_key, ANSWERS[each.api_key].max_version)
            each.max_version = max(each.min_version, min(each.max_version, highest))


def _hang_up(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
