from __future__ import annotations

from dataclasses import replace
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from offsite.metastore.status import MetastoreVerdict, MetastoreView
from offsite.model.clock import SystemClock
from offsite.monitor.metastore import METASTORE_SERIES, SILENT_MAX_S, MetastoreMonitor, MetastoreServer
from offsite.monitor.server import ListenAddress

CLOCK = SystemClock()


def view(**fields: object) -> MetastoreView:
    sound = MetastoreView(
        topic="t",
        verdict=MetastoreVerdict.CURRENT,
        file=None,
        commands=3,
        last_command_ms=5_000,
        seen_ms=CLOCK.now_ms(),
    )
    return replace(sound, **fields)  # type: ignore[arg-type]


def scraped(accept: str = "", **fields: object) -> dict[str, float]:
    text = MetastoreMonitor(view(**fields), clock=CLOCK).metrics(accept).text.decode()
    return {each.name: each.value for family in text_string_to_metric_families(text) for each in family.samples}


def test_each_series_is_scraped_and_what_is_not_known_is_not() -> None:
    found = scraped()
    assert {each.name for each in METASTORE_SERIES} <= {name.removesuffix("_total") for name in found}
    assert (found["offsite_metastore_commands"], found["offsite_metastore_last_command_timestamp_seconds"]) == (3, 5)
    assert "offsite_metastore_last_command_timestamp_seconds" not in scraped(last_command_ms=-1)
    assert MetastoreMonitor(view(), clock=CLOCK).metrics("application/openmetrics-text").text.endswith(b"# EOF\n")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"seen_ms": -1}, "not read yet"),
        ({"seen_ms": CLOCK.now_ms() - int(SILENT_MAX_S * 2000)}, "not read for"),
        ({"undecided": 2, "undecided_since_ms": 1}, "a transaction is open"),
        ({"is_there": False, "verdict": MetastoreVerdict.EMPTY}, "does not exist yet"),
        ({"verdict": MetastoreVerdict.EMPTIED, "missing": 3}, "emptied: 3 commands are missing"),
    ],
)
def test_it_is_not_ready_where_the_topic_is_not_what_the_file_is(fields: dict[str, object], reason: str) -> None:
    ready = MetastoreMonitor(view(**fields), clock=CLOCK).ready()
    assert (ready.ok, reason in ready.reason) == (False, True)


def test_it_is_served() -> None:
    with MetastoreServer("t", listen=ListenAddress(host="127.0.0.1", port=0), clock=CLOCK) as server:
        for path, status in (("/metrics", 200), ("/healthz", 200), ("/readyz", 503)):
            assert asked(f"http://{server.address}{path}") == status
        server.show(view())
        assert asked(f"http://{server.address}/readyz") == 200


def asked(url: str) -> int:
    try:
        with urlopen(url, timeout=10) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code
