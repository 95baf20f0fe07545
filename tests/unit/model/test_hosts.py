from __future__ import annotations

import pytest

from offsite.model.machine import is_loopback


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST.", "a.localhost", "127.0.0.1", "127.8.9.1", "::1", "[::1]"])
def test_names_of_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["", "broker", "10.0.0.1", "localhost.example.com", "127.0.0.1.example.com", "fe80::1"]
)
def test_names_of_others(host: str) -> None:
    assert not is_loopback(host)
