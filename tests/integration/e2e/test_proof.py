"""A live cluster against its backup: what is the same is proven, and what is not is named with place and field."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from offsite.demo.data import BASE_MS, DemoMessage
from offsite.engine.runner import Runner
from offsite.model.selection import parse_selection
from offsite.model.topic_choices import PartitionCounts, parse_partition_counts, parse_renames
from offsite.points.point_in_time import PointInTime, select_chains
from offsite.repository.restores.record import get_outcome
from offsite.restore.compare.expected import ExpectedTopic, expected_topics
from offsite.restore.compare.partition import ProofEnds
from offsite.restore.compare.proof import Proof, prove
from offsite.restore.compare.run import CompareRequest, CompareResult, plan_comparison, run_comparison
from offsite.restore.plan import prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.result import RestoreResult
from offsite.restore.run import run_restore
from offsite.restore.write.plan import RestorePlan, plan_restore
from tests.inline_runner import CrossingRunner
from tests.integration.e2e.site import Site, new_name
from tests.integration.e2e.transactions import begun, with_transaction

COUNT = 3000
CHANGED = 1234

HEADERS = (("trace", b"1"), ("trace", b"2"), ("empty", None))


@pytest.fixture(scope="module")
def spark() -> Runner:
    """None: a proof is the same whoever runs its tasks (`test_verify_against` has a Spark)."""
    return CrossingRunner()


def message(number: int, **changes: object) -> DemoMessage:
    fields = {
        "key": b"%d" % (number % 100),
        "value": b"value %d" % number,
        "timestamp_ms": BASE_MS + number,
        "headers": HEADERS,
        "partition": 0,
    }
    return DemoMessage(**(fields | changes))  # type: ignore[arg-type]


def messages(count: int = COUNT) -> list[DemoMessage]:
    return [message(number) for number in range(count)]


def write(site: Site, topic: str, found: Iterable[DemoMessage], **client: object) -> None:
    """In this very order, even where a new topic makes the client try again."""
    site.produce(topic, found, enable_idempotence=True, **client)


def copy_plan(site: Site, topic: str, target: str, *, counts: PartitionCounts | None = None) -> RestorePlan:
    state = site.backup.state()
    selected = select_chains(PointInTime(commit=state, state=state), parse_selection([topic])).copyable()
    return plan_restore(selected, renames=parse_renames([f"{topic}={target}"]), existing=(), counts=counts)


def of_a_copy(expected: Iterable[ExpectedTopic]) -> list[ExpectedTopic]:
    """Nobody remembers where it began, nor that it is a restore."""
    return [replace(each, starts=None, same_bounds=False, extents=None) for each in expected]


def prove_copy(site: Site, topic: str, target: str, *, exact: bool = True, committed: bool = True) -> Proof:
    """The newest backup of `topic` against `target`, wherever that came from."""
    plan = copy_plan(site, topic, target)
    ends = ProofEnds(kafka=site.cluster.config, store=site.repository.store, exact=exact)
    same = {target} if topic == target else set()
    expected = of_a_copy(expected_topics(plan, starts={}, read_committed=committed, same_offsets=same))
    return prove(expected, ends=ends, admin=site.cluster.admin, runner=site.spark)


def backed_up(site: Site) -> str:
    topic = site.make_topic()
    write(site, topic, messages())
    site.back_up(topic)
    return topic


def test_the_source_itself_is_proven_offset_by_offset(site: Site) -> None:
    topic = backed_up(site)
    proof = prove_copy(site, topic, topic)
    assert (proof.verified, proof.records, proof.findings) == (True, COUNT, ())


def test_a_restored_topic_is_proven_without_decoding_a_record(site: Site) -> None:
    topic = backed_up(site)
    target = new_name(topic)
    site.restore(topic, target)
    proof = prove_copy(site, topic, target)
    (partition,) = proof.topics[target].partitions
    assert (proof.verified, partition.records, partition.decoded_records) == (True, COUNT, 0)
    assert partition.digest == prove_copy(site, topic, topic).topics[topic].partitions[0].digest


def test_a_copy_made_by_another_client_is_proven_record_by_record(site: Site) -> None:
    topic = backed_up(site)
    target = site.make_topic()
    write(site, target, messages(), compression_type="zstd", batch_num_messages=7)
    proof = prove_copy(site, topic, target)
    (partition,) = proof.topics[target].partitions
    assert (proof.verified, partition.records, partition.decoded_records) == (True, COUNT, COUNT)


Edit = Callable[[list[DemoMessage]], None]


def change(**fields: object) -> Edit:
    return lambda found: found.__setitem__(CHANGED, message(CHANGED, **fields))


@pytest.mark.parametrize(
    ("edit", "kind", "fields"),
    [
        pytest.param(change(value=b"another"), "changed", ("value",), id="value"),
        pytest.param(change(value=None), "changed", ("value",), id="value-null"),
        pytest.param(change(key=b""), "changed", ("key",), id="key-empty"),
        pytest.param(change(timestamp_ms=BASE_MS), "changed", ("timestamp",), id="timestamp"),
        pytest.param(change(headers=(*HEADERS[:1], *HEADERS[2:])), "changed", ("headers",), id="header-missing"),
        pytest.param(change(headers=(HEADERS[1], HEADERS[0], HEADERS[2])), "changed", ("headers",), id="header-order"),
        pytest.param(lambda found: found.pop(CHANGED), "missing", (), id="missing"),
        pytest.param(lambda found: found.insert(CHANGED, found[CHANGED]), "extra", (), id="twice"),
        pytest.param(lambda found: found.insert(CHANGED, found.pop(CHANGED + 1)), "reordered", (), id="reordered"),
    ],
)
def test_one_wrong_record_among_thousands_is_named(site: Site, edit: Edit, kind: str, fields: tuple[str, ...]) -> None:
    topic = backed_up(site)
    target, copied = site.make_topic(), messages()
    edit(copied)
    write(site, target, copied)
    proof = prove_copy(site, topic, target)
    (found,) = proof.findings
    assert (proof.verified, found.topic, found.partition, found.kind, found.fields) == (False, target, 0, kind, fields)
    at = CHANGED + 1 if kind == "extra" else CHANGED  # the second of two equal records is the one too many
    assert max(found.source_offset, found.target_offset) == at
    assert proof.topics[target].partitions[0].digest == ""


def test_a_tail_that_is_missing_and_one_that_is_extra_are_counted(site: Site) -> None:
    topic = backed_up(site)
    shorter, longer = site.make_topic(), site.make_topic()
    write(site, shorter, messages(1000))
    write(site, longer, messages(COUNT + 500))
    (found,) = prove_copy(site, topic, shorter).findings
    assert (found.kind, found.source_offset, found.records) == ("missing", 1000, COUNT - 1000)
    (found,) = prove_copy(site, topic, longer).findings
    assert (found.kind, found.target_offset, found.records) == ("extra", COUNT, 500)
    proof = prove_copy(site, topic, longer, exact=False)
    assert (proof.verified, proof.topics[longer].partitions[0].later_offsets) == (True, 500)


def test_a_topic_that_is_not_there_and_one_of_another_shape_are_named(site: Site) -> None:
    topic = backed_up(site)
    (found,) = prove_copy(site, topic, "there-is-none").findings
    assert (found.kind, found.topic, found.partition) == ("topic", "there-is-none", -1)
    wider = site.make_topic(partitions=3)
    (found,) = prove_copy(site, topic, wider).findings
    assert (found.kind, found.detail) == ("partitions", "3 partitions instead of 1")


def test_records_in_a_partition_that_should_be_empty_are_extra(site: Site) -> None:
    topic, target = site.make_topic(partitions=2), site.make_topic(partitions=2)
    write(site, topic, messages(10))
    site.back_up(topic)
    write(site, target, [*messages(10), message(10, partition=1)])
    (found,) = prove_copy(site, topic, target).findings
    assert (found.partition, found.kind, found.target_offset, found.records) == (1, "extra", 0, 1)
    assert prove_copy(site, topic, target, exact=False).verified


def test_what_the_source_has_deleted_since_is_left_alone_and_told(site: Site) -> None:
    topic = backed_up(site)
    site.delete_before(topic, 777)
    proof = prove_copy(site, topic, topic, exact=False)
    (partition,) = proof.topics[topic].partitions
    assert (proof.verified, partition.records, partition.expired_offsets) == (True, COUNT - 777, 777)
    (found,) = prove_copy(site, topic, topic, exact=True).findings
    assert (found.kind, found.source_offset, found.records) == ("missing", 0, 777)


def test_aborted_and_open_transactions_count_on_neither_side(site: Site) -> None:
    topic = site.make_topic()
    write(site, topic, messages(100))
    with_transaction(site, topic, messages()[100:150], commit=False)
    with_transaction(site, topic, messages()[150:200], commit=True)
    site.back_up(topic)
    target = new_name(topic)
    site.restore(topic, target)
    assert prove_copy(site, topic, target).records == 150
    assert prove_copy(site, topic, topic).records == 150
    (found,) = prove_copy(site, topic, target, committed=False).findings
    assert (found.kind, found.source_offset) == ("missing", 100)
    assert prove_copy(site, topic, topic, committed=False).records == 200
    producer = begun(site, topic, messages(10))
    assert prove_copy(site, topic, topic, exact=False).verified
    producer.abort_transaction()


def restore_repartitioned(site: Site, topic: str, partitions: int) -> RestoreResult:
    target = new_name(topic)
    request = RestoreRequest(
        selection=parse_selection([topic]),
        renames=parse_renames([f"{topic}={target}"]),
        repartition=parse_partition_counts([f"{topic}={partitions}"]),
    )
    prepared = prepare_restore(site.backup, site.cluster.admin, request)
    return run_restore(prepared, cluster=site.cluster, runner=site.spark)


def compare_restore(site: Site, restore: str, *, exact: bool) -> CompareResult:
    request = CompareRequest(selection=parse_selection(["*"]), restore=restore, exact=exact)
    planned = plan_comparison(site.backup, site.cluster.admin, request)
    return run_comparison(planned, cluster=site.cluster, runner=site.spark)


def test_a_repartitioned_topic_is_proven_key_by_key(site: Site) -> None:
    topic = backed_up(site)
    result = restore_repartitioned(site, topic, 5)
    (target,) = result.topics
    assert (result.verified, result.records, result.findings) == (True, COUNT, ())
    again = compare_restore(site, result.restore, exact=True)
    assert (again.verified, again.records, len(again.topics[target].partitions)) == (True, COUNT, 5)
    write(site, target, [message(COUNT, partition=3)])
    assert compare_restore(site, result.restore, exact=False).verified
    (found,) = compare_restore(site, result.restore, exact=True).findings
    assert (found.partition, found.kind, found.records) == (3, "extra", 1)


def test_a_wrong_record_in_a_repartitioned_topic_is_named(site: Site) -> None:
    topic = backed_up(site)
    restored = restore_repartitioned(site, topic, 3)
    (name,) = restored.topics
    copied = [message(int((r.value or b"").split()[1]), partition=p) for p, rs in site.read(name).items() for r in rs]
    copied[10] = message(10_000, key=copied[10].key, partition=copied[10].partition)
    del copied[-1]
    target = site.make_topic(partitions=3)
    write(site, target, copied)
    plan = copy_plan(site, topic, target, counts=parse_partition_counts([f"{topic}=3"]))
    ends = ProofEnds(kafka=site.cluster.config, store=site.repository.store, exact=True)
    expected = of_a_copy(expected_topics(plan, starts={}, read_committed=True, same_offsets=()))
    proof = prove(expected, ends=ends, admin=site.cluster.admin, runner=site.spark)
    changed, missing = sorted(proof.findings, key=lambda each: each.kind)
    assert (changed.kind, changed.fields, changed.target_offset) == ("changed", ("timestamp", "value"), 10)
    assert (missing.kind, missing.records) == ("missing", 1)


class Meddling:
    """A runner between whose jobs somebody else writes into the target."""

    def __init__(self, inner: Runner, meddle: Callable[[], None]) -> None:
        self._inner = inner
        self._meddle = meddle

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def run_all(self, *arguments: Any, **options: Any) -> Any:
        outcomes = self._inner.run_all(*arguments, **options)
        self._meddle()
        return outcomes


def test_a_restore_that_is_not_what_the_backup_holds_ends_and_says_so(site: Site) -> None:
    topic = backed_up(site)
    target = new_name(topic)
    prepared = site.prepare(topic, target)
    runner = Meddling(site.spark, lambda: write(site, target, [message(COUNT)]))
    result = run_restore(prepared, cluster=site.cluster, runner=runner)
    (found,) = result.findings
    assert (result.verified, found.kind, found.target_offset, found.records) == (False, "extra", COUNT, 1)
    outcome = get_outcome(site.repository.store, prepared.layout)
    assert outcome is not None
    assert (outcome.verified, outcome.findings) == (False, (f"{found.where}: {found.what}",))


def test_a_restore_that_nobody_wants_to_read_back_says_nothing_of_it(site: Site) -> None:
    topic = backed_up(site)
    prepared = site.prepare(topic, new_name(topic))
    result = run_restore(prepared, cluster=site.cluster, runner=site.spark, verify=False)
    assert (result.verified, result.findings) == (None, ())
    assert compare_restore(site, result.restore, exact=True).verified


def restored(site: Site, topic: str, offsets: str) -> RestoreResult:
    request = RestoreRequest(
        selection=parse_selection([topic]), renames=parse_renames([f"{topic}={new_name(topic)}"]), offsets=offsets
    )
    prepared = prepare_restore(site.backup, site.cluster.admin, request)
    return run_restore(prepared, cluster=site.cluster, runner=site.spark)


@pytest.mark.parametrize("offsets", ["translate", "preserve"])
def test_a_restore_is_compared_again_when_its_topic_has_lost_its_beginning(site: Site, offsets: str) -> None:
    topic = site.make_topic()
    write(site, topic, messages())
    with_transaction(site, topic, messages()[:50], commit=False)
    site.delete_before(topic, 500)
    site.back_up(topic)
    result = restored(site, topic, offsets)
    (target,) = result.topics
    assert compare_restore(site, result.restore, exact=True).verified
    site.delete_before(target, 700)
    again = compare_restore(site, result.restore, exact=False)
    (partition,) = again.topics[target].partitions
    lost = 200 if offsets == "preserve" else 700
    assert (again.verified, partition.records, partition.expired_offsets) == (True, COUNT - 500 - lost, lost)
    (found,) = compare_restore(site, result.restore, exact=True).findings
    assert (found.kind, found.source_offset, found.records) == ("missing", 500, lost)


def test_a_kept_log_that_ends_elsewhere_is_named(site: Site) -> None:
    topic = backed_up(site)
    result = restored(site, topic, "preserve")
    (target,) = result.topics
    with_transaction(site, target, [message(0)], commit=False)
    assert compare_restore(site, result.restore, exact=False).verified
    (found,) = compare_restore(site, result.restore, exact=True).findings
    assert (found.kind, found.detail) == ("bounds", "the log has offsets 0 to 3002 instead of 0 to 3000")
