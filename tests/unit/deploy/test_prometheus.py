"""Alert rules and dashboard: they mean series that are there, they are what Prometheus takes, and each alert works."""

from __future__ import annotations

import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from offsite.metastore.status import MetastoreVerdict, MetastoreView
from offsite.model.clock import SystemClock
from offsite.monitor.backup_series import expose
from offsite.monitor.metastore import MetastoreMonitor
from offsite.operator.core.monitor import HomeMonitor, RoundSummary
from tests.fetched_tools import NoTool, debian_tool
from tests.promql import references
from tests.unit.monitor.views import FULL, NEW, NOW_MS

DEPLOY = Path(__file__).parents[3] / "deploy"
RULES = DEPLOY / "prometheus" / "offsite-alerts.yaml"
RULE_TESTS = RULES.with_name("offsite-alerts.test.yaml")
DASHBOARD = DEPLOY / "grafana" / "offsite.json"

OF_THE_SCRAPE = frozenset({"instance", "job"})
"""Labels that Prometheus adds itself."""

_SHOWN_LABEL = re.compile(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}")


@pytest.fixture(scope="session")
def tool() -> Path:
    try:
        return debian_tool("promtool", package="prometheus")
    except NoTool as error:
        pytest.skip(str(error))


@dataclass(frozen=True)
class OperatorHome:
    rounds: RoundSummary


def operator_shown() -> HomeMonitor:
    return HomeMonitor(home=OperatorHome(rounds=RoundSummary(ended_s=0.0)), clock=SystemClock())


def scraped() -> Mapping[str, frozenset[str]]:
    """The labels of each series of a real scrape in which everything is told, as Prometheus stores them."""
    found: dict[str, set[str]] = defaultdict(set)
    metastore = MetastoreView(
        topic="t", verdict=MetastoreVerdict.CURRENT, file=None, last_command_ms=NOW_MS, seen_ms=NOW_MS
    )
    shown = MetastoreMonitor(metastore, clock=SystemClock())
    texts = expose(FULL, now_ms=NOW_MS).text + shown.metrics("").text + operator_shown().metrics("").text
    for family in text_string_to_metric_families(texts.decode()):
        for sample in family.samples:
            found[sample.name].update(sample.labels)
    return {name: frozenset(labels) | OF_THE_SCRAPE for name, labels in found.items()}


def rules() -> dict[str, dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def queries() -> Iterator[tuple[str, str, str]]:
    """Title, expression and what is shown beside the values, of everything on the dashboard that asks for data."""
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"], target["legendFormat"]
    for note in dashboard["annotations"]["list"]:
        yield note["name"], note["expr"], note["titleFormat"] + note["textFormat"]


def check_references(expression: str, shown: str) -> None:
    """Every series, every label in a selector or a grouping, and every label that is shown, is in the scrape."""
    there, meant = scraped(), references(expression)
    labels: set[str] = set()
    for name, matched in meant.series:
        assert name in there, f"{name} is no series: {expression}"
        assert matched <= there[name], f"{name} has no {matched - there[name]}: {expression}"
        labels |= there[name]
    assert meant.labels <= labels, f"no series has {meant.labels - labels}: {expression}"
    assert set(_SHOWN_LABEL.findall(shown)) - {"value"} <= labels, f"{shown!r}: {expression}"


@pytest.mark.parametrize("name", rules())
def test_a_rule_means_series_and_labels_that_are_there(name: str) -> None:
    rule = rules()[name]
    check_references(rule["expr"], " ".join(rule["annotations"].values()))
    assert rule["labels"]["severity"] in {"critical", "warning"}


@pytest.mark.parametrize(("title", "expression", "shown"), list(queries()))
def test_a_panel_means_series_and_labels_that_are_there(title: str, expression: str, shown: str) -> None:
    check_references(expression, shown)


def test_the_choice_of_a_backup_means_a_series_that_is_there() -> None:
    (variable,) = (
        each
        for each in json.loads(DASHBOARD.read_text(encoding="utf-8"))["templating"]["list"]
        if each["type"] == "query"
    )
    series, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"]).groups()  # type: ignore[union-attr]
    assert label in scraped()[series]
    assert variable["definition"] == variable["query"]["query"]


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("offsite_records", ""),
        ('offsite_records_total{kind="x"}', ""),
        ("sum by (topic) (offsite_records_total)", ""),
        ("offsite_records_total unless on (topic) offsite_head_commit", ""),
        ("offsite_records_total", "{{ $labels.topic }}"),
        ("up == 0", ""),
        ("stddev(offsite_head_commit)", ""),
    ],
)
def test_what_is_not_there_is_noticed(expression: str, shown: str) -> None:
    with pytest.raises(AssertionError):
        check_references(expression, shown)


def test_every_panel_has_a_place_of_its_own() -> None:
    taken: dict[tuple[int, int], str] = {}
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        at = panel["gridPos"]
        for cell in ((x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])):
            assert cell not in taken, f"{panel['title']} lies over {taken[cell]}"
            assert cell[0] < 24
            taken[cell] = panel["title"]


def test_every_alert_is_tested_for_firing_and_for_silence() -> None:
    tested: dict[str, set[bool]] = defaultdict(set)
    for test in yaml.safe_load(RULE_TESTS.read_text(encoding="utf-8"))["tests"]:
        for case in test["alert_rule_test"]:
            tested[case["alertname"]].add(bool(case.get("exp_alerts")))
    assert tested == {name: {True, False} for name in rules()}


def test_the_rules_are_what_prometheus_takes(tool: Path) -> None:
    run(tool, "check", "rules", "--lint=all", "--lint-fatal", str(RULES))


@pytest.mark.slow
def test_the_alerts_fire_when_they_must(tool: Path) -> None:
    run(tool, "test", "rules", str(RULE_TESTS))


def test_every_panel_asks_in_promql(tool: Path, tmp_path: Path) -> None:
    asked = [{"record": f"panel:{n}", "expr": filled(each)} for n, (_, each, _) in enumerate(queries())]
    (tmp_path / "panels.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": asked}]}))
    said = run(tool, "check", "rules", "--lint=none", str(tmp_path / "panels.yaml"))
    assert f"{len(asked)} rules found" in said


@pytest.mark.parametrize("view", [NEW, FULL, replace(FULL, topics=FULL.topics * 2)])
def test_a_scrape_is_what_prometheus_takes(tool: Path, view: object) -> None:
    assert run(tool, "check", "metrics", given=expose(FULL, now_ms=NOW_MS, topics_max=1).text) == ""


def filled(expression: str) -> str:
    return expression.replace("$__rate_interval", "5m").replace("$backup", ".*")


def run(tool: Path, *command: str, given: bytes = b"") -> str:
    """What the tool says, which must be content."""
    done = subprocess.run([tool, *command], input=given, capture_output=True, timeout=120, check=False)
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said
    return said
