"""What can happen to an answer as bytes on a connection, whatever it says."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from tests.misbehaving_broker.exchange import Exchange
from tests.misbehaving_broker.messages import SIZE, framed

SWAP_WAIT_S = 0.05  # a client that pipelines has sent its next request by then
_CORRELATION = struct.Struct(">i")
_KEPT = 2  # of a cut answer: one half


@dataclass(frozen=True)
class CutBefore:
    """The connection ends, the broker never heard the request."""

    def __call__(self, exchange: Exchange) -> None:
        exchange.cut()


@dataclass(frozen=True)
class CutAfter:
    """The broker did as asked; the answer is lost with the connection."""

    def __call__(self, exchange: Exchange) -> None:
        exchange.ask()
        exchange.cut()


@dataclass(frozen=True)
class CutWithin:
    """Half of the answer arrives."""

    def __call__(self, exchange: Exchange) -> None:
        whole = framed(exchange.ask())
        exchange.link.send(whole[: len(whole) // _KEPT])
        exchange.cut()


@dataclass(frozen=True)
class Swallowed:
    """The request is neither passed on nor answered, and so are those behind it: a broker takes them one by one."""

    def __call__(self, exchange: Exchange) -> None:
        exchange.link.dead = True


@dataclass(frozen=True)
class Deaf:
    """The broker does as asked, now and from now on, and no answer comes any more."""

    def __call__(self, exchange: Exchange) -> None:
        exchange.link.deaf = True
        exchange.ask()


@dataclass(frozen=True)
class Late:
    """The answer comes, so much later."""

    delay_s: float

    def __call__(self, exchange: Exchange) -> None:
        answer = exchange.ask()
        exchange.link.pause(self.delay_s)
        exchange.reply(answer)


@dataclass(frozen=True)
class Trickled:
    """A few bytes come at a time: none of them is late, the answer is."""

    bytes_at_once: int = 1
    every_s: float = 0.1

    def __call__(self, exchange: Exchange) -> None:
        whole = framed(exchange.ask())
        for start in range(0, len(whole), self.bytes_at_once):
            exchange.link.send(whole[start : start + self.bytes_at_once])
            exchange.link.pause(self.every_s)


@dataclass(frozen=True)
class Swapped:
    """The answer comes behind the next one, where the client has asked for a next one already."""

    def __call__(self, exchange: Exchange) -> None:
        answer = exchange.ask()
        if exchange.link.held is None and exchange.link.client_speaks(SWAP_WAIT_S):
            exchange.link.held = answer
        else:
            exchange.reply(answer)


@dataclass(frozen=True)
class Doubled:
    """The answer comes twice."""

    def __call__(self, exchange: Exchange) -> None:
        answer = exchange.ask()
        exchange.reply(answer)
        exchange.reply(answer)


@dataclass(frozen=True)
class WrongCorrelation:
    """The answer names a request that is not ours."""

    add: int = 1

    def __call__(self, exchange: Exchange) -> None:
        answer = exchange.ask()
        (number,) = _CORRELATION.unpack_from(answer)
        exchange.reply(_CORRELATION.pack((number + self.add) % 2**31) + answer[_CORRELATION.size :])


@dataclass(frozen=True)
class ClaimedLength:
    """The answer comes with another length in front of it; None: a random one."""

    length: int | None = None

    def __call__(self, exchange: Exchange) -> None:
        answer = exchange.ask()
        length = exchange.random.randrange(-(2**31), 2**31) if self.length is None else self.length
        exchange.link.send(SIZE.pack(length) + answer)


@dataclass(frozen=True)
class Garbage:
    """Length and correlation id are right, all else is noise."""

    def __call__(self, exchange: Exchange) -> None:
        answer = exchange.ask()
        exchange.reply(answer[: _CORRELATION.size] + exchange.random.randbytes(len(answer) - _CORRELATION.size))


@dataclass(frozen=True)
class Shortened:
    """A whole frame, whose body lacks its last bytes."""

    by_bytes: int = 1

    def __call__(self, exchange: Exchange) -> None:
        answer = exchange.ask()
        exchange.reply(answer[: max(_CORRELATION.size, len(answer) - self.by_bytes)])


@dataclass(frozen=True)
class Lengthened:
    """A whole frame, whose body goes on behind its end."""

    by_bytes: int = 1

    def __call__(self, exchange: Exchange) -> None:
        exchange.reply(exchange.ask() + bytes(self.by_bytes))
