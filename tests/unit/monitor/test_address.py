from __future__ import annotations

import pytest

from offsite.model.errors import BadOption
from offsite.monitor.server import parse_address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("9090", "127.0.0.1", 9090),
        ("0", "127.0.0.1", 0),
        ("127.0.0.1:9090", "127.0.0.1", 9090),
        ("0.0.0.0:9090", "0.0.0.0", 9090),
        ("localhost:9090", "localhost", 9090),
        ("[::1]:9090", "::1", 9090),
    ],
)
def test_a_port_alone_is_for_this_machine_only(text: str, host: str, port: int) -> None:
    found = parse_address(text)
    assert (found.host, found.port) == (host, port)
    assert parse_address(str(found)) == found


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "65536", "1.5", "host", ":9090", "::1:9090", "a b:1", "http://h:1", "h:"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(BadOption):
        parse_address(text)
