from __future__ import annotations

import pytest

from offsite.kafka.config import KafkaConfig, parse_bootstrap
from offsite.kafka.net.routing import RACK_VARIABLE, shared_router

CONFIG = KafkaConfig(bootstrap=parse_bootstrap("here:1"), rack_id="a")


def test_an_executor_asks_for_replicas_of_the_rack_that_it_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shared_router(CONFIG).config.rack_id == "a"
    monkeypatch.setenv(RACK_VARIABLE, "b")
    assert shared_router(CONFIG).config.rack_id == "b"
    monkeypatch.setenv(RACK_VARIABLE, "")
    assert shared_router(CONFIG).config.rack_id == "a"
