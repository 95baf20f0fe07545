"""What Prometheus scrapes: values, names, bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from offsite.monitor.backup_series import SERIES, TOPIC_SERIES, expose
from offsite.monitor.metrics import OPEN_METRICS
from offsite.monitor.view import DURATION_SERIES, FollowView, TopicView
from tests.unit.monitor.views import FULL, NEW, NOW_MS, ORDERS, H, S

Sample = tuple[str, tuple[tuple[str, str], ...]]


def scraped(view: FollowView, *, now_ms: int = NOW_MS, topics_max: int = 1000) -> dict[Sample, float]:
    """The values by name and labels but the backup's, which all have."""
    text = expose(view, now_ms=now_ms, accept=OPEN_METRICS, topics_max=topics_max).text.decode()
    found: dict[Sample, float] = {}
    for sample in (sample for family in parse_openmetrics(text) for sample in family.samples):
        assert sample.labels["backup"] == "shop"
        rest = tuple((name, value) for name, value in sorted(sample.labels.items()) if name != "backup")
        assert (sample.name, rest) not in found
        found[sample.name, rest] = sample.value
    return found


def value(view: FollowView, name: str, topic: str | None = None, *, now_ms: int = NOW_MS) -> float | None:
    return scraped(view, now_ms=now_ms).get((name, () if topic is None else (("topic", topic),)))


def with_topic(**told: int) -> FollowView:
    return replace(FULL, topics=(TopicView(topic="orders", **told),))


def test_every_series_that_is_declared_has_a_value_in_a_full_view() -> None:
    there = {name for name, _ in scraped(FULL)}
    plain = {each.name for each in (*SERIES, *TOPIC_SERIES)}
    durations = {each.name + part for each in DURATION_SERIES for part in ("_bucket", "_count", "_sum")}
    assert there == plain | durations | {"offsite_topics_without_series"}


@pytest.mark.parametrize("view", [NEW, FULL])
def test_both_formats_say_the_same(view: FollowView) -> None:
    plain = expose(view, now_ms=NOW_MS, accept="text/plain")
    opened = expose(view, now_ms=NOW_MS, accept=f"{OPEN_METRICS};version=1.0.0,text/plain;q=0.5")
    assert plain.content_type.startswith("text/plain; version=0.0.4")
    assert opened.content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert sorted(told(parse_plain(plain.text.decode()))) == sorted(told(parse_openmetrics(opened.text.decode())))


def told(families: Iterator[object]) -> list[tuple[str, str, float]]:
    return [
        (sample.name, str(sorted(sample.labels.items())), sample.value)
        for family in families
        for sample in family.samples  # type: ignore[attr-defined]
    ]


def test_times_are_seconds_and_counters_are_totals() -> None:
    samples = scraped(FULL)
    assert samples["offsite_last_commit_timestamp_seconds", ()] == (NOW_MS - 5 * S) / 1000
    assert samples["offsite_records_total", ()] == 123_456_789
    assert samples["offsite_bytes_total", (("kind", "written"),)] == 123_456
    assert samples["offsite_throttled_seconds_total", ()] == 1.5
    assert samples["offsite_outage_start_timestamp_seconds", (("reason", "OFF-1501"),)] == NOW_MS / 1000 - 300
    assert samples["offsite_round_duration_seconds_bucket", (("le", "0.5"),)] == 2
    assert samples["offsite_round_duration_seconds_bucket", (("le", "0.1"),)] == 1
    assert samples["offsite_round_duration_seconds_bucket", (("le", "+Inf"),)] == 3


def test_one_state_is_1() -> None:
    for view, state in (
        (NEW, "starting"),
        (FULL, "outage"),
        (replace(FULL, outage=None), "following"),
        (replace(FULL, outage=None, pass_complete=False), "catching_up"),
    ):
        states = {labels[0][1]: on for (name, labels), on in scraped(view).items() if name == "offsite_job_state"}
        assert states == dict.fromkeys(("starting", "catching_up", "following", "outage"), 0.0) | {state: 1.0}


def test_what_is_not_known_has_no_series() -> None:
    there = {name for name, _ in scraped(NEW)}
    for absent in (
        "offsite_last_commit_timestamp_seconds",
        "offsite_last_round_timestamp_seconds",
        "offsite_last_verify_timestamp_seconds",
        "offsite_verify_damaged_objects",
        "offsite_restore_test_last_success_timestamp_seconds",
        "offsite_outage_start_timestamp_seconds",
        "offsite_rpo_seconds",
    ):
        assert absent not in there


def test_a_known_reason_of_holes_is_there_before_the_first_hole() -> None:
    assert scraped(NEW)["offsite_holes_total", (("reason", "truncation"),)] == 0


def test_the_recovery_point_is_the_newest_evidence() -> None:
    records_only = with_topic(newest_record_ms=NOW_MS - 60 * S)
    assert value(records_only, "offsite_rpo_seconds", "orders") == 60
    idle_topic = with_topic(newest_record_ms=NOW_MS - 60 * S, caught_up_ms=NOW_MS - 12 * S)
    assert value(idle_topic, "offsite_rpo_seconds", "orders") == 12
    assert value(idle_topic, "offsite_rpo_seconds", "orders", now_ms=NOW_MS + H) == 3612
    assert value(idle_topic, "offsite_restorable_to_timestamp_seconds", "orders") == NOW_MS / 1000 - 12


def test_without_evidence_there_is_no_recovery_point() -> None:
    for view in (with_topic(), with_topic(lag_records=7, restorable_from_ms=5)):
        assert value(view, "offsite_rpo_seconds", "orders") is None
        assert value(view, "offsite_restorable_to_timestamp_seconds", "orders") is None


def test_a_record_from_the_future_proves_nothing_of_the_time_after_its_commit() -> None:
    ahead = with_topic(newest_record_ms=NOW_MS + 24 * H)
    assert value(ahead, "offsite_rpo_seconds", "orders", now_ms=NOW_MS + H) == 3605  # the commit is 5 s old at NOW_MS
    assert value(replace(ahead, last_commit_ms=-1), "offsite_rpo_seconds", "orders") is None


def test_topics_beyond_the_bound_are_together_and_the_worst_is_seen() -> None:
    topics = [replace(ORDERS, topic=f"t{n}", caught_up_ms=NOW_MS - n * H, lag_records=n) for n in range(5)]
    shown = scraped(replace(NEW, topics=tuple(reversed(topics))), topics_max=2)
    rpo = {labels[0][1]: at for (name, labels), at in shown.items() if name == "offsite_rpo_seconds"}
    assert rpo == {"t0": 0, "t1": 3600, "": 4 * 3600}
    assert shown["offsite_source_lag_records", (("topic", ""),)] == 2 + 3 + 4
    assert shown["offsite_source_retention_headroom_seconds", (("topic", ""),)] == 3600.5
    assert shown["offsite_restorable_to_timestamp_seconds", (("topic", ""),)] == NOW_MS / 1000 - 4 * 3600
    assert shown["offsite_topics_without_series", ()] == 3
    assert scraped(replace(NEW, topics=tuple(topics)), topics_max=5)["offsite_topics_without_series", ()] == 0


def test_a_topic_that_is_there_twice_is_shown_once() -> None:
    twice = replace(NEW, topics=(ORDERS, replace(ORDERS, caught_up_ms=NOW_MS - H)))
    assert value(twice, "offsite_rpo_seconds", "orders") == 3600
    assert scraped(twice, topics_max=1)["offsite_topics_without_series", ()] == 0
