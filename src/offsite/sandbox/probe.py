"""Is the broker ready? Asked over its own protocol, by hand: the sandbox stands below the Kafka layer.

Source: Kafka protocol guide, Metadata (key 3) version 1.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Collection

_METADATA_OF_NO_TOPIC = struct.pack(">hhi", 3, 1, 7) + struct.pack(">h", -1) + struct.pack(">i", 0)
ANSWER_LIMIT_S = 2.0  # a broker that takes longer is still starting: ask again
LARGEST_ANSWER_BYTES = 65_536  # one broker and no topic need about 60


def has_controller(host: str, port: int, *, brokers: Collection[int] = ()) -> bool:
    """True once the broker answers, knows `brokers` (node ids) as live ones, or any, and has a controller."""
    try:
        with socket.create_connection((host, port), timeout=ANSWER_LIMIT_S) as connection:
            connection.sendall(struct.pack(">i", len(_METADATA_OF_NO_TOPIC)) + _METADATA_OF_NO_TOPIC)
            (size_bytes,) = struct.unpack(">i", _receive(connection, 4))
            if not 0 < size_bytes <= LARGEST_ANSWER_BYTES:
                return False
            return _names_a_controller(_receive(connection, size_bytes), set(brokers))
    except OSError:
        return False


def _receive(connection: socket.socket, size_bytes: int) -> bytes:
    received = bytearray()
    while len(received) < size_bytes:
        piece = connection.recv(size_bytes - len(received))
        if not piece:
            raise ConnectionResetError("the broker closed the connection")
        received += piece
    return bytes(received)


def _names_a_controller(answer: bytes, wanted: set[int]) -> bool:
    """Correlation id, brokers (id, host, port, rack), controller id."""
    (count,) = struct.unpack_from(">i", answer, 4)
    position, found = 8, set[int]()
    for _ in range(count):
        found.add(struct.unpack_from(">i", answer, position)[0])
        position = _after_string(answer, position + 4) + 4
        position = _after_string(answer, position)
    controller_id: int = struct.unpack_from(">i", answer, position)[0]
    return bool(found) and wanted <= found and controller_id >= 0


def _after_string(answer: bytes, position: int) -> int:
    length: int = struct.unpack_from(">h", answer, position)[0]
    return position + 2 + max(length, 0)  # a null string has length -1
