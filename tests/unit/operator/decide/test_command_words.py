"""What a person writes into a resource stays the value of its option, as the command line itself reads it."""

from __future__ import annotations

from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from offsite.cli.app import app
from offsite.model.errors import BadResource
from offsite.model.selection import PATTERN_OPTIONS, split_all, split_patterns
from offsite.model.units import MIB
from offsite.operator.decide.desired import Account
from offsite.operator.decide.desired_restore import DesiredRestore, resolve_restore
from offsite.operator.decide.schedule import build_command
from offsite.operator.resources.jobs import Restore
from offsite.operator.resources.parse import parse_resource
from offsite.restore.options import RestoreWords, parse_restore, parse_restore_limits
from tests.examples import examples
from tests.unit.operator.decide.test_schedule import schedule

ACCOUNTS = (Account(name="main", endpoint="/backups"),)
HOSTILE = (
    "--take-over",
    "-y",
    "--",
    "-o table",
    "a --no-verify",
    "'quoted' \"twice\"",
    "a\nb",
    "$(touch /tmp/x); `id`",
    "--repo=/elsewhere",
    "=--bootstrap=evil:9092",
    "x --commit 7",
    "\u202e--yes",
    " ",
    "@file",
)
TEXTS = st.one_of(st.sampled_from(HOSTILE), st.text(min_size=1, max_size=40))


def wanted(**spec: object) -> DesiredRestore:
    found = parse_resource(
        {
            "apiVersion": "offsite.dev/v1alpha1",
            "kind": "Restore",
            "metadata": {"name": "back", "uid": "rrrrrrrr-1"},
            "spec": {"backupUrl": "/backups#shop", "cluster": "target", **spec},
        },
        source="test",
    )
    assert isinstance(found, Restore)
    return resolve_restore(found, ACCOUNTS)


def as_read(arguments: tuple[str, ...]) -> dict[str, Any]:
    """The options that the command line finds in `arguments`, without what it would have by itself."""
    group, name, *rest = arguments
    command = typer.main.get_command(app).commands[group].commands[name]  # type: ignore[attr-defined]
    values, left, _ = command.make_parser(command.make_context(name, [], resilient_parsing=True)).parse_args(list(rest))
    assert left == []
    patterns = {option: split_all(texts) for option, texts in values.items() if option in PATTERN_OPTIONS}
    return values | patterns


def plain(patterns: list[str]) -> list[str]:
    return [each.strip() for each in patterns]


@given(st.lists(TEXTS, min_size=1, max_size=4), st.lists(TEXTS, max_size=3), TEXTS)
@examples(150)
def test_patterns_of_a_restore_never_become_other_options(topics: list[str], rename: list[str], groups: str) -> None:
    try:
        arguments = wanted(topics=topics, rename=rename, groups=groups).arguments
    except BadResource:
        assert any("\0" in each for each in (*topics, *rename, groups))
        return
    found = as_read(arguments)
    expected = {
        "backup": "shop",
        "topics": plain(topics),
        "offsets": "auto",
        "groups": split_patterns(groups) or ["none"],
        "yes": True,
    }
    assert found == (expected | {"rename": plain(rename)} if rename else expected)


@given(st.lists(TEXTS, min_size=1, max_size=4))
@examples(60)
def test_patterns_of_a_drill_never_become_other_options(topics: list[str]) -> None:
    try:
        arguments = build_command(schedule(topics=topics), "shop-1")
    except BadResource:
        assert any("\0" in each for each in topics)
        return
    assert as_read(arguments) == {"backup": "shop-1", "topics": plain(topics), "sandbox": True}


@pytest.mark.parametrize("text", ["a\0b", "\0", "\ud800"])
@pytest.mark.parametrize("field", ["topics", "rename", "groups"])
def test_what_no_command_line_holds_is_refused(field: str, text: str) -> None:
    with pytest.raises(BadResource):
        wanted(**{field: text if field == "groups" else [text]})


@pytest.mark.parametrize("backup", ["--take-over", "a b", "../x", "a/b", "a\0", "-x", "a=b --yes", "a..b", "'a'", "ä"])
def test_a_backup_with_a_name_that_none_has_is_refused(backup: str) -> None:
    with pytest.raises(BadResource):
        wanted(backupUrl=f"/backups#{backup}")


def test_a_repository_may_hold_what_parts_it_from_the_backup() -> None:
    found = wanted(backupUrl="/data/a#b#shop")
    assert (found.place.repository, found.backup) == ("/data/a#b", "shop")


@given(TEXTS)
@examples(100)
def test_a_time_becomes_a_time_or_is_refused(time: str) -> None:
    try:
        arguments = wanted(timestamp=time, sourceCluster="shop").arguments
    except BadResource:
        return
    (told,) = (each for each in arguments if each.startswith("--committed-at"))
    assert told.replace("--committed-at=", "").replace("Z", "").replace(":", "").replace("-", "").replace(".", "")


@pytest.mark.parametrize("time", ["2h-ago", "1d ago", "--yes", "tomorrow", "2026-13-01", "9" * 30, "\0"])
def test_a_time_that_is_not_the_same_for_each_attempt_is_refused(time: str) -> None:
    with pytest.raises(BadResource):
        wanted(timestamp=time, sourceCluster="shop")


def test_a_time_is_told_in_utc() -> None:
    arguments = wanted(timestamp="2026-11-20 15:00+01:00", sourceCluster="shop").arguments
    assert "--committed-at=2026-11-20T14:00:00.000Z" in arguments


def test_a_version_counts_more_than_a_time() -> None:
    found = wanted(commit=7, timestamp="2026-11-20T14:00:00Z", sourceCluster="shop")
    assert "--commit=7" in found.arguments
    assert not any(each.startswith("--committed-at") for each in found.arguments)
    assert found.source_cluster == ""


LIMITED = {"repartition": ["orders=12", "3"], "keyless": "in-turn", "batchBytes": "64kB", "writeLimit": "1.5MiB/s"}


def test_limits_and_new_batches_reach_the_command_which_reads_them_as_they_were_meant() -> None:
    found = as_read(wanted(**LIMITED).arguments)
    assert found == {
        "backup": "shop",
        "topics": ["*"],
        "repartition": ["orders=12", "3"],
        "keyless": "in-turn",
        "batch_bytes": "64kB",
        "write_limit": "1.5MiB/s",
        "offsets": "auto",
        "groups": ["none"],
        "yes": True,
    }
    assert parse_restore_limits({"write_limit": found["write_limit"]}).write_bytes_per_s == 1.5 * MIB
    meant = parse_restore(RestoreWords(**{name: found[name] for name in ("repartition", "keyless", "batch_bytes")}))
    assert (meant.repartition.counts, meant.repartition.batch_bytes) == ({"orders": 12, "*": 3}, 64_000)


def test_a_restore_without_limits_has_the_command_line_that_it_had_before_there_were_any() -> None:
    """The job of an attempt is asked for again by whoever takes over, an operator of a later version too."""
    expected = ("restore", "run", "--backup=shop", "--topics=*", "--offsets=auto", "--groups=none", "--yes")
    assert wanted().arguments == expected


@pytest.mark.parametrize(
    ("spec", "said", "hint"),
    [
        ({"writeLimit": "1kB"}, "spec.writeLimit: '1kB' is below the minimum, 10kB a second", "writeLimit 50MB"),
        ({"writeLimit": "2000TB"}, "spec.writeLimit: '2000TB' is above the maximum", "or omit the option"),
        ({"repartition": ["12"], "batchBytes": "15kB"}, "spec.batchBytes: '15kB' is not between 16kB and 1MB", "64kB"),
        ({"repartition": ["12"], "batchBytes": "2MB"}, "spec.batchBytes: '2MB' is not between", "64kB"),
        ({"repartition": ["orders=0"]}, "spec.repartition: 'orders=0' is not a partition count", "orders=12"),
        ({"repartition": ["orders=3", "orders=4"]}, "spec.repartition: 'orders=4' is not a partition count, or", "12"),
        ({"repartition": ["or ders=3"]}, "spec.repartition: ", "12 for all"),
    ],
)
def test_limits_that_the_command_would_refuse_are_refused_by_the_names_of_their_fields(
    spec: dict[str, Any], said: str, hint: str
) -> None:
    with pytest.raises(BadResource) as refused:
        wanted(**spec)
    assert said in refused.value.message
    assert hint in refused.value.hint


def test_no_topics_are_not_taken_for_all() -> None:
    with pytest.raises(BadResource):
        wanted(topics=[])
