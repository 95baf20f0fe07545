"""A backup against its source, which deleted topics, made them anew, or cut logs back since: what cannot be compared is
named, and the rest is compared."""

from __future__ import annotations

from typing import Any

import pytest

from offsite.cli.views.verify import render_verification
from offsite.model.selection import parse_selection
from offsite.model.units import format_time
from offsite.restore.compare.run import CompareRequest, CompareResult, plan_comparison, run_comparison
from offsite.upkeep.verification.run import verify_quick
from tests.fake_cluster.cluster import FakeCluster
from tests.fake_cluster.site import Site
from tests.shown import shown

pytestmark = pytest.mark.usefixtures("asked_again_at_once")


@pytest.fixture
def begun(site: Site) -> Site:
    """Two topics, backed up once."""
    for topic in ("orders", "users"):
        site.source.make_topic(topic)
        site.source.write(topic, [b"a"])
        site.source.write(topic, [b"b"])
    site.back_up("orders", "users")
    return site


def compare(
    site: Site, cluster: FakeCluster | None = None, topics: list[str] | None = None, **request: Any
) -> CompareResult:
    wanted = CompareRequest(selection=parse_selection(topics or ["*"]), **request)
    planned = plan_comparison(site.backup, (cluster or site.source).admin, wanted)
    return run_comparison(planned, cluster=(cluster or site.source).connected, runner=site.runner)


def told(site: Site, result: CompareResult) -> str:
    checked = verify_quick(site.backup)
    object.__setattr__(checked, "against", result)
    return shown(render_verification(checked, listed=False))


def test_a_topic_that_is_marked_as_deleted_is_left_out_and_named(begun: Site) -> None:
    del begun.source.topics["users"]
    before = compare(begun)
    assert (before.verified, before.left_out) == (False, ()), "nobody has seen yet that it was deleted"
    begun.back_up()
    after = compare(begun, exact=True)
    assert (after.verified, list(after.topics), after.findings) == (True, ["orders"], ())
    ((left,), shape) = after.left_out, begun.backup.state().latest_shapes()["users"]
    assert (left.topic, left.topic_id, left.deleted_ms, left.made_anew) == (
        "users",
        shape.topic_id,
        shape.deleted_ms,
        False,
    )
    since = format_time(shape.deleted_ms)
    assert f"users: deleted at the source since {since} or before: not compared" in told(begun, after)


def test_of_an_older_point_the_newest_one_says_what_was_deleted_since(begun: Site) -> None:
    del begun.source.topics["users"]
    begun.back_up()
    result = compare(begun, commit=1)
    assert (result.verified, [each.topic for each in result.left_out]) == (True, ["users"])


def test_where_all_that_was_asked_for_is_deleted_nothing_is_proven(begun: Site) -> None:
    del begun.source.topics["users"]
    begun.back_up()
    result = compare(begun, topics=["users"])
    assert (result.verified, result.topics, len(result.left_out)) == (None, {}, 1)


def test_a_topic_that_is_missing_and_not_marked_stays_a_difference(begun: Site) -> None:
    del begun.source.topics["users"]
    begun.back_up()
    del begun.source.topics["orders"]
    result = compare(begun)
    assert (result.verified, [each.topic for each in result.findings]) == (False, ["orders"])
    assert [each.topic for each in result.left_out] == ["users"]


def test_a_copy_that_lacks_a_deleted_topic_is_different(begun: Site) -> None:
    del begun.source.topics["users"]
    begun.back_up()
    begun.target.make_topic("orders")
    begun.target.write("orders", [b"a", b"b"])
    result = compare(begun, begun.target)
    assert (result.verified, [each.topic for each in result.findings], result.left_out) == (False, ["users"], ())


def test_a_deleted_topic_that_is_there_again_is_compared(begun: Site) -> None:
    """Such as one that was restored since."""
    gone = begun.source.topics.pop("users")
    begun.back_up()
    begun.source.topics["users"] = gone
    result = compare(begun)
    assert (result.verified, sorted(result.topics), result.left_out) == (True, ["orders", "users"], ())


def test_of_a_topic_that_was_made_anew_the_newest_one_is_compared_and_the_older_one_named(begun: Site) -> None:
    old = str(begun.source.topics["users"].topic_id)
    begun.source.remake_topic("users")
    begun.source.write("users", [b"new"])
    begun.back_up()
    result = compare(begun, exact=True)
    assert (result.verified, result.topics["users"].records) == (True, 1)
    ((left,), text) = result.left_out, told(begun, result)
    assert (left.topic, left.topic_id, left.made_anew, left.deleted_ms > 0) == ("users", old, True, True)
    assert f"users: an older incarnation ({old}), replaced at the source since" in text
    assert compare(begun, topics=["orders"]).left_out == (), "of the topics that were asked for"


def test_of_a_log_that_was_cut_back_the_new_history_is_compared_and_the_old_one_named(begun: Site) -> None:
    log = begun.source.topics["users"].partitions[0]
    log.elect(cut_to=1)
    begun.source.write("users", [b"new"])
    begun.back_up()
    result = compare(begun, exact=True)
    assert (result.verified, result.topics["users"].records) == (True, 2)
    ((branch,), text) = result.branches, told(begun, result)
    assert (branch.topic, branch.partition, branch.at, branch.end) == ("users", 0, 1, 2)
    assert "the old records up to offset 2 are kept: restore them with --commit 1" in text
    assert compare(begun, topics=["orders"]).branches == ()
