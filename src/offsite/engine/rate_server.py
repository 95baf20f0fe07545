"""The driver's end of the rate limits: all workers of a run share the driver's bytes, over TCP.

A worker connects once per process, sends the token of its task, receives the driver's token, and asks whenever the
worker needs more bytes. The driver answers at once, so silence means a dead driver. The worker's token keeps strangers
from using up the bytes; the driver's token keeps a later owner of the port from handing out bytes. The tokens protect
nothing else. Nothing is opened without a limit.
"""

from __future__ import annotations

import secrets
import selectors
import socket
import struct
import threading
from collections import Counter
from contextlib import suppress
from hmac import compare_digest

from offsite.engine.rate_limits import Direction, RateAddress, RateLimits
from offsite.model.clock import Clock, SystemClock
from offsite.model.units import KIB

BURST_S = 0.25
"""Savings of an idle bucket: enough for a late wake-up, a fortieth of the bytes of ten seconds."""

PORTION_S = 0.1
"""A user's share of the rate at a time: ten questions a second cost nothing."""

OUTSTANDING_S = 0.5
"""Bytes that all users may hold together: as many may come at once after brokers stood still for all of them."""

LEAST_PORTION_BYTES = 16 * KIB
"""Smaller portions cost more in requests than they save in evenness."""

TOKEN_BYTES = 16
EXECUTOR_BYTES = 16
"""The worker's key of its executor, after the token."""
QUESTION = struct.Struct(">BQ")
"""The limit, and the bytes taken; zero bytes only ask for the portion."""
ANSWER = struct.Struct(">dQ")
"""Seconds until the bytes are paid for, and the portion in bytes to take next time."""
MAX_STRANGERS = 64
"""Connections without a token yet; above the maximum, the oldest is closed."""


class TokenBucket:
    """Lets `bytes_per_s` through, from `now_s` on. Empty at first.

    Pure: the caller brings the time. Every byte is paid before it is moved. A user that takes bytes learns at once how
    long to wait, and waits on its own: no user queues behind another, and a user that dies while waiting loses the
    bytes and delays nobody.
    """

    def __init__(self, bytes_per_s: int, now_s: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._paid_until_s = now_s

    def take(self, size_bytes: int, now_s: float) -> float:
        """Take `size_bytes`. Returns the seconds from `now_s` until the bytes are paid for."""
        begins_s = max(self._paid_until_s, now_s - BURST_S)
        self._paid_until_s = begins_s + size_bytes / self._bytes_per_s
        return max(0.0, self._paid_until_s - now_s)

    def portion_bytes(self, users: int) -> int:
        """Return the bytes that every one of `users` should take at once."""
        return max(LEAST_PORTION_BYTES, int(self._bytes_per_s * min(PORTION_S, OUTSTANDING_S / max(1, users))))


class RateServer:
    """Hands out bytes under `limits` on `host` until `close`, in a separate thread."""

    def __init__(self, host: str, limits: RateLimits, *, bind: str = "", clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._listener = socket.create_server((bind or host, 0), backlog=1024)
        self._listener.setblocking(False)
        self.address = RateAddress(
            host=host,
            port=self._listener.getsockname()[1],
            token=secrets.token_bytes(TOKEN_BYTES),
            welcome=secrets.token_bytes(TOKEN_BYTES),
            limits=limits,
        )
        now_s = self._clock.monotonic_s()
        self._shared = {which: TokenBucket(rate, now_s) for which, rate in limits.of_all().items()}
        self._of_executor: dict[tuple[Direction, bytes], TokenBucket] = {}
        self._workers: Counter[bytes] = Counter()  # of each executor
        self._peers: dict[socket.socket, _Peer] = {}
        self._strangers: dict[socket.socket, None] = {}
        self._selector = selectors.DefaultSelector()
        self._end_signal, self._end = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="offsite-rate-limits", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop at once; later clients find nobody. May be called twice."""
        self._end.close()
        self._thread.join()

    def _serve(self) -> None:
        for source in (self._listener, self._end_signal):
            self._selector.register(source, selectors.EVENT_READ)
        with self._selector, self._listener, self._end_signal:
            while self._turn():
                pass
            for sock in self._peers:
                sock.close()

    def _turn(self) -> bool:
        for key, _ in self._selector.select():
            if key.fileobj is self._end_signal:
                return False
            if key.fileobj is self._listener:
                self._accept()
            elif (peer := self._peers.get(key.fileobj)) is not None:  # type: ignore[call-overload]  # a socket
                self._hear(peer)
        return True

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except OSError:  # the client is gone again
            return
        self._peers[sock], self._strangers[sock] = _Peer(sock), None
        self._selector.register(sock, selectors.EVENT_READ)
        if len(self._strangers) > MAX_STRANGERS:
            self._drop(next(iter(self._strangers)))

    def _hear(self, peer: _Peer) -> None:
        try:
            heard = peer.sock.recv(QUESTION.size if peer.is_known else TOKEN_BYTES + EXECUTOR_BYTES)
            is_ours = bool(heard) and self._answered(peer, heard)
        except OSError:  # gone, or a client that asks and takes no answer
            is_ours = False
        if not is_ours:
            self._drop(peer.sock)

    def _answered(self, peer: _Peer, heard: bytes) -> bool:
        """Take received bytes and answer whole questions; false for a stranger."""
        peer.heard += heard
        if not peer.is_known:
            return self._welcomed(peer)
        while len(peer.heard) >= QUESTION.size:
            which, size_bytes = QUESTION.unpack_from(peer.heard)
            del peer.heard[: QUESTION.size]
            if which not in self.address.limits.by_direction():
                return False
            peer.sock.sendall(self._shared_out(Direction(which), peer.executor, size_bytes))
        return True

    def _welcomed(self, peer: _Peer) -> bool:
        """Return false for a stranger; a client with an incomplete greeting may continue."""
        token, executor = bytes(peer.heard[:TOKEN_BYTES]), bytes(peer.heard[TOKEN_BYTES:])
        if len(token) == TOKEN_BYTES and not compare_digest(token, self.address.token):
            return False
        if len(executor) < EXECUTOR_BYTES:
            return True
        peer.executor = executor
        self._workers[executor] += 1
        peer.heard.clear()
        peer.is_known = True
        del self._strangers[peer.sock]
        peer.sock.sendall(self.address.welcome)
        return True

    def _shared_out(self, which: Direction, executor: bytes, size_bytes: int) -> bytes:
        """Take bytes of both limits; the later limit decides when all bytes are paid for."""
        all_workers = len(self._peers) - len(self._strangers)
        buckets = [
            (self._shared.get(which), all_workers),
            (self._bucket_of(which, executor), self._workers[executor]),
        ]
        now_s = self._clock.monotonic_s()
        limiting = [(bucket, users) for bucket, users in buckets if bucket is not None]
        wait_s = max(bucket.take(size_bytes, now_s) for bucket, _ in limiting) if size_bytes else 0.0
        return ANSWER.pack(wait_s, min(bucket.portion_bytes(users) for bucket, users in limiting))

    def _bucket_of(self, which: Direction, executor: bytes) -> TokenBucket | None:
        rate = self.address.limits.of_executor().get(which)
        if rate is None:
            return None
        if (which, executor) not in self._of_executor:
            self._of_executor[which, executor] = TokenBucket(rate, self._clock.monotonic_s())
        return self._of_executor[which, executor]

    def _drop(self, sock: socket.socket) -> None:
        peer = self._peers.pop(sock)
        if peer.is_known:
            self._workers[peer.executor] -= 1
        self._strangers.pop(sock, None)
        with suppress(OSError, KeyError):
            self._selector.unregister(sock)
        sock.close()


class _Peer:
    """A connection, with received bytes of an incomplete message."""

    __slots__ = ("executor", "heard", "is_known", "sock")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.heard = bytearray()
        self.is_known = False
        self.executor = b""
