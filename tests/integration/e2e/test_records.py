"""Every kind of record comes back as it was: keys, values, headers, times, sizes, codecs."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import product

import pytest

from offsite.demo.data import BASE_MS, DAY_MS, DemoMessage, Header
from offsite.kafka.writer import PartitionWriter
from offsite.log.range import TopicPartition
from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.model.units import MIB
from offsite.restore.plan_report import report_plan
from tests.integration.e2e.copies import Copy
from tests.integration.e2e.site import Site, new_name
from tests.integration.kafka.cluster import wait_until

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FAR_FUTURE_MS = 4_102_444_800_000  # the year 2100: far beyond what a broker takes by default
LARGE = 4 * MIB


def test_all_pairs_of_keys_and_values_come_back(site: Site) -> None:
    topic = site.make_topic(max_message_bytes=str(LARGE))
    site.produce(topic, pairs(), message_max_bytes=LARGE)
    site.back_up(topic)
    assert site.assert_comes_back(topic).records == 16


def pairs() -> Sequence[DemoMessage]:
    """Key and value each missing, empty, tiny and large."""
    fields = (None, b"", b"x", random.Random(1).randbytes(MIB))
    return [DemoMessage(key=key, value=value, timestamp_ms=BASE_MS) for key, value in product(fields, fields)]


HEADERS: dict[str, Sequence[Header]] = {
    "none": (),
    "same name twice": (("a", b"1"), ("a", b"2")),
    "order b, a, b": (("b", b"1"), ("a", b"2"), ("b", b"3")),
    "null value": (("a", None),),
    "empty value": (("a", b""),),
    "empty name": (("", b"1"),),
    "not ASCII": (("ключ", "значение".encode()),),
    "binary value": (("a", bytes(range(256))),),
    "many": tuple((f"h{n % 7}", b"%d" % n) for n in range(1000)),
}


@pytest.fixture(scope="module")
def header_lists() -> Iterable[DemoMessage]:
    return [DemoMessage(key=None, value=b"x", timestamp_ms=BASE_MS, headers=tuple(each)) for each in HEADERS.values()]


@pytest.mark.parametrize("codec", CODECS)
def test_headers_come_back_in_order_with_their_doubles(
    site: Site, header_lists: Iterable[DemoMessage], codec: str
) -> None:
    topic = site.make_topic()
    site.produce(topic, header_lists, compression_type=codec)
    site.back_up(topic)
    site.assert_comes_back(topic)


@pytest.mark.parametrize("first", [0, 1], ids=["as it is", "re-encoded"])
def test_a_header_name_that_is_not_utf8_comes_back(site: Site, first: int) -> None:
    """An independent client cannot read such a name: what is compared are the records that offsite decodes."""
    topic = site.make_topic()
    name = b"\xff\xfe name".decode("utf-8", "surrogateescape")
    records = [record(n, headers=((name, b"1"), ("a", None))) for n in range(4)]
    write_raw(site, topic, encode(records))
    if first:
        site.delete_before(topic, first)
    site.back_up(topic)
    site.assert_verified()
    target = new_name(topic)
    site.restore(topic, target)
    kept = [(r.value, r.headers) for r in records[first:]]
    assert [(r.value, r.headers) for r in site.cluster.records(target)] == kept


TIMES_MS: dict[str, Sequence[int]] = {
    "none (-1)": (-1, -1, -1),
    "0": (0, 0, 1),
    "none, then some": (-1, BASE_MS, BASE_MS + 1),
    "decreasing": (BASE_MS, BASE_MS - 1, BASE_MS - 2, BASE_MS - DAY_MS),
    "30 days apart": (BASE_MS, BASE_MS + 30 * DAY_MS),
    "far future": (BASE_MS, FAR_FUTURE_MS),
}


@pytest.mark.parametrize("times_ms", TIMES_MS.values(), ids=TIMES_MS.keys())
def test_odd_times_in_one_batch_come_back(site: Site, times_ms: Sequence[int]) -> None:
    topic = site.make_topic(message_timestamp_after_max_ms=str(2**63 - 1))
    write_raw(site, topic, encode([record(n, timestamp_ms=time_ms) for n, time_ms in enumerate(times_ms)]))
    site.back_up(topic)
    assert [each.timestamp_ms for each in site.read(topic)[0]] == list(times_ms)
    site.assert_comes_back(topic)


@pytest.mark.parametrize("offsets", ["preserve", "translate"])
def test_every_kind_of_record_is_the_same_on_another_cluster(
    copy: Copy, header_lists: Iterable[DemoMessage], offsets: str
) -> None:
    """Nothing of the log is missing: old and new offsets are the same ones."""
    site = copy.site
    topic = site.make_topic(max_message_bytes=str(LARGE), message_timestamp_after_max_ms=str(2**63 - 1))
    site.produce(topic, pairs(), message_max_bytes=LARGE)
    for codec in CODECS:
        site.produce(topic, header_lists, compression_type=codec)
    for times_ms in TIMES_MS.values():
        write_raw(site, topic, encode([record(n, timestamp_ms=time_ms) for n, time_ms in enumerate(times_ms)]))
    site.back_up(topic)
    assert copy.restore(topic, offsets=offsets).verified
    copy.assert_the_same_log(topic)


def test_the_times_of_a_log_append_time_topic_are_kept_and_the_plan_says_what_will_show(site: Site) -> None:
    topic = site.make_topic(message_timestamp_type="LogAppendTime")
    site.produce(topic, [DemoMessage(key=None, value=b"%d" % n, timestamp_ms=5) for n in range(50)])
    site.back_up(topic)
    target = new_name(topic)
    (note,) = report_plan(site.prepare(topic, target)).notes
    assert note.startswith(f"{topic} has LogAppendTime")
    site.restore(topic, target)
    before, after = site.read(topic)[0], site.read(target)[0]
    assert {each.timestamp_type for each in before} == {2}
    assert [(each.value, each.timestamp_ms) for each in after] == [(each.value, each.timestamp_ms) for each in before]
    site.cluster.assert_configs(target, {"message.timestamp.type": "LogAppendTime"})


def test_all_codecs_mixed_in_one_partition_come_back(site: Site) -> None:
    topic = site.make_topic()
    for _ in range(3):
        for codec in CODECS:
            messages = (
                DemoMessage(key=codec.encode(), value=b"%d " % n * 50, timestamp_ms=BASE_MS + n) for n in range(200)
            )
            site.produce(topic, messages, compression_type=codec)
    site.back_up(topic)
    assert site.assert_comes_back(topic).records == 3000


def test_a_batch_at_the_limit_comes_back_though_nobody_compresses_it_so_well_again(copy: Copy) -> None:
    """The log starts inside of it, so that it has to be encoded anew."""
    site = copy.site
    topic = site.make_topic(max_message_bytes=str(LARGE))
    noise = random.Random(4)
    words = [noise.randbytes(noise.randrange(2, 9)).hex().encode() for _ in range(3000)]
    values = (b" ".join(noise.choices(words, k=60)) for _ in range(4000))
    dense = {"compression_type": "lz4", "compression_level": 12, "linger_ms": 60_000, "batch_size": LARGE}
    messages = [DemoMessage(key=None, value=value, timestamp_ms=BASE_MS) for value in values]
    site.produce(topic, messages, message_max_bytes=LARGE, **dense)
    largest_bytes = max(batch.header.size_bytes for batch in site.cluster.read(site.cluster.whole(topic)))
    assert largest_bytes > MIB
    limit = {"max.message.bytes": str(largest_bytes)}
    site.cluster.admin.alter_topic_configs({topic: dict(limit)})
    site.delete_before(topic, 1)
    site.back_up(topic)
    site.assert_comes_back(topic)
    assert copy.restore(topic).verified
    copy.assert_the_same_log(topic)
    copy.target.assert_configs(topic, limit)


def test_binary_values_come_back(site: Site) -> None:
    topic = site.make_topic()
    values = [
        bytes(range(256)),
        b"line\nbreak\r\n",
        b"\0" * 1000,
        b"\xff\xfe\xc0\x80",
        b'{"a":',
        b"\x00\x00\x00\x00\x01",
    ]
    site.produce(topic, (DemoMessage(key=value, value=value, timestamp_ms=BASE_MS) for value in values))
    site.back_up(topic)
    site.assert_comes_back(topic)


def test_big_uncompressed_batches_come_back(site: Site) -> None:
    topic = site.make_topic()
    noise = random.Random(2)
    messages = (DemoMessage(key=None, value=noise.randbytes(4000), timestamp_ms=BASE_MS + n) for n in range(4000))
    site.produce(topic, messages, batch_size=900_000, linger_ms=50, acks="all")
    site.back_up(topic)
    assert site.assert_comes_back(topic).records == 4000


@pytest.mark.soak  # waits for the log cleaner
@pytest.mark.timeout(120)
def test_many_empty_cleaned_batches_are_passed_and_leave_their_offsets_free(copy: Copy) -> None:
    """The cleaner keeps the last batch of each producer, empty: thirty producers leave thirty of them."""
    site = copy.site
    topic = site.make_topic(
        cleanup_policy="compact", segment_bytes=str(MIB), segment_ms="500", min_cleanable_dirty_ratio="0.01"
    )
    for n in range(30):
        site.produce(topic, [keyed(n)], enable_idempotence=True, linger_ms=0)

    def cleaned() -> bool:
        site.produce(topic, [keyed(1000)])
        return sum(not batch.header.record_count for batch in site.cluster.read(site.cluster.whole(topic))) >= 25

    wait_until(cleaned, limit_s=60)
    site.back_up(topic)
    site.assert_comes_back(topic)
    assert copy.restore(topic).verified
    copy.assert_the_same_log(topic)


def keyed(n: int) -> DemoMessage:
    return DemoMessage(key=b"the only key", value=b"%d" % n, timestamp_ms=BASE_MS + n)


def record(offset: int, *, timestamp_ms: int = BASE_MS, headers: tuple[Header, ...] = ()) -> Record:
    return Record(offset, timestamp_ms, 0, b"key", b"%d" % offset, headers)


def write_raw(site: Site, topic: str, batch: bytearray) -> None:
    """Produce exactly these bytes: what no client library would write."""
    key = TopicPartition(topic=topic, partition=0)
    with PartitionWriter(site.cluster.router, key, on_ack=lambda _index, _offset: None) as writer:
        writer.send(batch)
        writer.flush()
