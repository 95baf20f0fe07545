"""Every packet of a network namespace, and what each connection carried.

`captured` runs this file as a process of its own: it reads `lo` through AF_PACKET and keeps up with it while others of
the test compute. The kernel counts what it had to drop, so that nobody takes a hole for silence.
"""

from __future__ import annotations

import base64
import json
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

_SOL_PACKET, _STATISTICS, _IGNORE_OUTGOING = 263, 6, 23  # linux/if_packet.h
_SO_RCVBUFFORCE = 33
_ALL_PROTOCOLS = 3
_BUFFER_BYTES = 512 << 20
_LARGEST_PACKET = 1 << 20
_TCP, _UDP = 6, 17
_SYN = 0x02
_LENGTH = struct.Struct("<I")


@dataclass(slots=True, kw_only=True)
class Flow:
    """One direction of one connection: what was sent, in order. Of UDP: all datagrams from one port to another."""

    source: tuple[str, int]
    target: tuple[str, int]
    data: bytes = b""
    missing_bytes: int = 0

    @property
    def ports(self) -> frozenset[int]:
        return frozenset({self.source[1], self.target[1]})

    def __str__(self) -> str:
        return f"{self.source[0]}:{self.source[1]} > {self.target[0]}:{self.target[1]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """`dropped`: packets that the kernel had no room for. `strange`: packets that are neither TCP nor UDP."""

    packets: int
    dropped: int
    flows: tuple[Flow, ...]
    strange: tuple[bytes, ...]

    @property
    def missing_bytes(self) -> int:
        return sum(flow.missing_bytes for flow in self.flows)


class Wire:
    """What came by; to be read when the block of `captured` has ended."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def recording(self) -> Recording:
        packets, dropped = json.loads(self._file.with_suffix(".json").read_text())
        taps = _Taps()
        for packet in _packets(self._file):
            taps.take(packet)
        return Recording(packets=packets, dropped=dropped, flows=taps.flows(), strange=tuple(taps.strange))


@contextmanager
def captured(file: Path) -> Iterator[Wire]:
    """A block whose packets are seen, from the first to the last one."""
    with subprocess.Popen([sys.executable, "-P", __file__, file], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield Wire(file)
        finally:
            process.terminate()
    assert process.returncode == 0


def forms_of(secret: str) -> Mapping[str, bytes]:
    """What `secret` may look like, by the name of the form."""
    raw = secret.encode()
    return {
        "raw": raw,
        "hex": raw.hex().encode(),
        "HEX": raw.hex().upper().encode(),
        "UTF-16LE": secret.encode("utf-16-le"),
        "UTF-16BE": secret.encode("utf-16-be"),
        **{f"base64+{shift}": _in_base64(raw, shift) for shift in range(3)},
    }


def seen_in(data: bytes, secrets: Mapping[str, str]) -> Iterator[str]:
    """`name as form` of all that is found."""
    for name, secret in secrets.items():
        for form, text in forms_of(secret).items():
            if text in data:
                yield f"{name} as {form}"


def _in_base64(raw: bytes, shift: int) -> bytes:
    """The characters that `raw` alone decides where it begins `shift` bytes after a multiple of three."""
    text = base64.b64encode(b"\0" * shift + raw).rstrip(b"=")
    first = -(-shift * 8 // 6)
    return text[first : (shift + len(raw)) * 8 // 6]


class _Taps:
    """Packets by the flow they belong to. A port that is used again begins another flow."""

    def __init__(self) -> None:
        self._now: dict[tuple[object, ...], _Segments] = {}
        self._ended: list[_Segments] = []
        self._datagrams: dict[tuple[object, ...], Flow] = {}
        self.strange: list[bytes] = []

    def take(self, packet: bytes) -> None:
        protocol, source, target, body = _unwrapped(packet)
        if protocol not in {_TCP, _UDP}:
            self.strange.append(packet)
            return
        from_port, to_port = struct.unpack_from("!HH", body)
        key = (source, from_port, target, to_port)
        flow = Flow(source=(source, from_port), target=(target, to_port))
        if protocol == _UDP:
            self._datagrams.setdefault(key, flow).data += body[8:]
            return
        (number,) = struct.unpack_from("!I", body, 4)
        payload = body[(body[12] >> 4) * 4 :]
        if body[13] & _SYN:
            before = self._now.get(key)
            if before is not None and before.first != (number + 1) & 0xFFFFFFFF:
                self._ended.append(self._now.pop(key))
            self._now.setdefault(key, _Segments(flow, (number + 1) & 0xFFFFFFFF))
        elif payload:
            self._now.setdefault(key, _Segments(flow, number)).parts.append((number, payload))

    def flows(self) -> tuple[Flow, ...]:
        return (*(each.joined() for each in (*self._ended, *self._now.values())), *self._datagrams.values())


@dataclass(slots=True)
class _Segments:
    flow: Flow
    first: int
    parts: list[tuple[int, bytes]] = field(default_factory=list)

    def joined(self) -> Flow:
        """Segments in the order of their numbers; what was sent twice counts once. A flow stays below 2 GiB."""
        data = bytearray()
        for place, payload in sorted((self._place(number), payload) for number, payload in self.parts):
            if place > len(data):
                self.flow.missing_bytes += place - len(data)
                data += b"\0" * (place - len(data))
            data += payload[max(0, len(data) - place) :]
        self.flow.data = bytes(data)
        return self.flow

    def _place(self, number: int) -> int:
        """Negative for what came before the first: a connection that was there before the capture, out of order."""
        place = (number - self.first) & 0xFFFFFFFF
        return place - (1 << 32) if place >> 31 else place


def _unwrapped(packet: bytes) -> tuple[int, str, str, bytes]:
    """Protocol, addresses of source and target, and what the IP packet holds."""
    if packet[0] >> 4 == 4:
        source, target = (socket.inet_ntoa(packet[at : at + 4]) for at in (12, 16))
        (size,) = struct.unpack_from("!H", packet, 2)
        return packet[9], source, target, packet[(packet[0] & 0x0F) * 4 : size or None]
    if packet[0] >> 4 == 6:
        source, target = (socket.inet_ntop(socket.AF_INET6, packet[at : at + 16]) for at in (8, 24))
        return packet[6], source, target, packet[40:]
    return -1, "", "", packet


def _packets(file: Path) -> Iterable[bytes]:
    with file.open("rb") as recorded:
        while head := recorded.read(_LENGTH.size):
            yield recorded.read(_LENGTH.unpack(head)[0])


def _capture(file: Path) -> None:
    """Write packets to `file` until SIGTERM, then those that wait."""
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ALL_PROTOCOLS))
    tap.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)  # each packet of lo comes in as well
    try:
        tap.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
    except PermissionError:  # root of a user namespace only
        tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    tap.bind(("lo", 0))
    tap.getsockopt(_SOL_PACKET, _STATISTICS, 8)  # counts from now on
    tap.setblocking(False)
    signal.signal(signal.SIGTERM, lambda *_: None)
    woken, bell = socket.socketpair()
    bell.setblocking(False)
    signal.set_wakeup_fd(bell.fileno())
    with file.open("wb") as out:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while woken not in select.select([tap, woken], [], [])[0]:
            _drain(tap, out)
        _drain(tap, out)
    statistics = struct.unpack("II", tap.getsockopt(_SOL_PACKET, _STATISTICS, 8))
    file.with_suffix(".json").write_text(json.dumps(statistics))


def _drain(tap: socket.socket, out: BinaryIO) -> None:
    """Write all that waits."""
    with suppress(BlockingIOError):
        while packet := tap.recv(_LARGEST_PACKET):
            out.write(_LENGTH.pack(len(packet)) + packet)


if __name__ == "__main__":
    _capture(Path(sys.argv[1]))
