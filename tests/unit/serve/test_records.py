"""Records in the browser and the API: one record with its place, its bytes, searches, and who looked at what."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from offsite.log.range import PartitionId, TopicPartition
from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.repository.job import JobEnd, JobLayout
from offsite.repository.job_records import JobRecords
from offsite.serve.tokens import TokenFile
from offsite.table.record_detail import COMMITS_READ
from tests.fake_cluster.site import BACKUP, Site
from tests.tables import commit_batches
from tests.unit.serve.conftest import Connect, FakedClusters

BASE = f"/backups/{BACKUP}"
HTML = {"Accept": "text/html"}
EVIL = b"<script>alert(1)</script>\x1b[31m\xe2\x80\xae"
SCHEMAS = PartitionId(topic="_schemas", topic_id="id-schemas", partition=0)
ORDERS = TopicPartition(topic="orders", partition=0)


def shown(client: TestClient, path: str) -> str:
    answer = client.get(path, headers=HTML)
    assert answer.status_code == 200, answer.text
    return answer.text


def put(site: Site, *records: Record, **options: Any) -> None:
    log = site.source.log(ORDERS)
    log.put(bytes(encode([record._replace(offset=log.end + n) for n, record in enumerate(records)], **options)))
    site.back_up()


def test_a_record_has_a_page_and_an_object_of_its_own(client: TestClient) -> None:
    text = shown(client, f"{BASE}/records/orders/0/1")
    assert f'href="{BASE}/records/orders/0/0"' in text
    assert "the backup has no record after this one" in text
    assert "offsite cat orders/0 --repo=" in text
    assert "--from=1 --to=2" in text
    assert "kcat -C -b source:9092 -t orders -p 0 -o 1 -c 1" in text
    assert "1 restore point, from commit 1" in text
    detail = client.get(f"/api/v1{BASE}/records/orders/0/1").json()
    assert detail["record"]["value"] == {"encoding": "text", "data": "b", "schema_id": None, "schema": None}
    assert (detail["place"]["previous"]["offset"], detail["place"]["next"]["offset"]) == (0, None)


def test_the_list_leads_to_each_record_and_on(client: TestClient, site: Site) -> None:
    site.source.write("orders", [b"v"] * 60)
    site.back_up()
    text = shown(client, f"{BASE}/records?topic=orders&partition=0")
    assert text.count(f'href="{BASE}/records/orders/0/') == 50
    (following,) = re.findall(r'href="\?(topic=orders[^"]*start=50[^"]*)"', text)
    assert text.count("<td>") > shown(client, f"{BASE}/records?{following.replace('&amp;', '&')}").count("<td>")
    assert "No records there." in shown(client, f"{BASE}/records?topic=orders&start=5&end=5")


def test_a_page_reads_few_commits_and_more_when_it_is_asked_to(client: TestClient, site: Site) -> None:
    for _ in range(COMMITS_READ):
        site.source.write("orders", [b"v"])
        site.back_up()
    text = shown(client, f"{BASE}/records/orders/0/0?commit={COMMITS_READ + 1}")
    assert "8 restore points, from commit 2" in text
    assert "earlier ones may, too" in text
    (query,) = re.findall(r'href="\?(deep=[^"]*)"', text)
    text = shown(client, f"{BASE}/records/orders/0/0?{query.replace('&amp;', '&')}")
    assert "9 restore points, from commit 1" in text
    assert "deep=" not in text


def test_a_list_decodes_no_large_record(client: TestClient, site: Site) -> None:
    """A producer may compress a hundred megabytes of JSON into one: decoded they need a gigabyte, for each look."""
    put(site, *(Record(0, 0, 0, None, b"[" + b"{}," * count + b"{}]", ()) for count in (1, 100_000)))
    small, large = client.get(f"/api/v1{BASE}/records?topic=orders&partition=0&start=1&limit=3").json()[-2:]
    assert (small["value"]["encoding"], small["value"]["data"]) == ("json", [{}, {}])
    assert (large["value"]["encoding"], len(large["value"]["data"])) == ("text", 300_004)
    assert "300,004 characters" in shown(client, f"{BASE}/records?topic=orders&partition=0")


@pytest.mark.parametrize(
    ("offset", "says"),
    [(99, "up to offset 2 (not included)"), (2**63 - 1, "up to offset 2 (not included)")],
)
def test_an_offset_without_a_record_is_told_with_its_neighbour(client: TestClient, offset: int, says: str) -> None:
    text = shown(client, f"{BASE}/records/orders/0/{offset}")
    assert says in text
    assert f'href="{BASE}/records/orders/0/1"' in text


def test_a_transaction_a_marker_and_a_hole_are_told_as_such(client: TestClient, site: Site) -> None:
    site.source.write_in_transaction("orders", [b"x"], committed=False)
    site.source.write("orders", [b"y"])
    site.back_up()
    assert "aborted: a consumer" in shown(client, f"{BASE}/records/orders/0/2")
    assert "--isolation=read_uncommitted" in shown(client, f"{BASE}/records/orders/0/2")
    assert "end of a transaction (abort)" in shown(client, f"{BASE}/records/orders/0/3")
    site.source.write("orders", [b"z"] * 3)
    site.source.log(ORDERS).delete_before(7)
    site.back_up()
    assert "offsets 5 to 6: lost at the source before the copy (retention)" in shown(
        client, f"{BASE}/records/orders/0/4"
    )


def test_what_strangers_wrote_is_bounded_visible_and_escaped_everywhere(client: TestClient, site: Site) -> None:
    name = "<b>\u202e\n" + "n" * 500
    put(
        site,
        Record(0, 2**62, 0, EVIL, EVIL * 3_000, ((name, EVIL), (name, None)) * 100),
        Record(0, -1, 0, None, json.dumps({"\u202e<b>": ["\x1b<i>"] * 9_000}).encode()),
        Record(0, 5, 0, EVIL + b"\0", EVIL * 20_000),
    )
    for path in (*(f"{BASE}/records/orders/0/{offset}" for offset in (2, 3, 4)), f"{BASE}/records?topic=orders"):
        text = shown(client, path)
        for raw in ("<script>alert", "<b>", "<i>", "\x1b", "\u202e", "\x00"):
            assert raw not in text, (path, raw)
        assert len(text.encode()) < 200_000, (path, len(text))
    assert f"hex:{EVIL.hex()}00" in shown(client, f"{BASE}/records?topic=orders&start=4")
    text = shown(client, f"{BASE}/records/orders/0/2")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[31m\\u202e" in text
    assert "first part of 93,000 characters" in text
    assert "too large to be decoded" in shown(client, f"{BASE}/records/orders/0/4")
    assert "170 more headers" in text
    assert f"{2**62} ms" in text
    assert "none <span" in shown(client, f"{BASE}/records/orders/0/3")


@pytest.mark.parametrize("part", ["key", "value"])
def test_the_bytes_are_downloaded_unchanged_and_never_shown_as_a_page(
    client: TestClient, site: Site, part: str
) -> None:
    put(site, Record(0, 5, 0, EVIL, EVIL), Record(0, 5, 0, None, None))
    answer = client.get(f"/api/v1{BASE}/records/orders/0/2/{part}", headers=HTML)
    assert answer.content == EVIL
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"] == f"attachment; filename=orders-0-2.{part}"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert client.get(f"/api/v1{BASE}/records/orders/0/3/{part}").status_code == 400
    assert client.get(f"/api/v1{BASE}/records/orders/0/9/{part}").status_code == 400


@pytest.mark.parametrize(
    "path",
    ["none/0/0", "orders/9/0", "orders/-1/0", "orders/0/x", "regex%3A(a+)+$/0/0", "orders/0/0?commit=99", "a%0Ab/0/0"],
)
def test_what_is_not_there_is_refused(client: TestClient, path: str) -> None:
    for prefix in ("", "/api/v1"):
        assert client.get(f"{prefix}{BASE}/records/{path}", headers=HTML).status_code in {400, 404}


def test_a_search_takes_the_options_of_the_command(client: TestClient, coordinator: FakedClusters) -> None:
    body = {
        "topics": ["orders", "pay*"],
        "partitions": ["orders:0"],
        "key_hex": "00ff",
        "header": ["trace", "a=b"],
        "where": ["/id=7", "/total>1"],
        "start": "5",
        "end": "2026-11-20",
        "commit": 1,
        "isolation": "read_uncommitted",
        "limit": 7,
    }
    assert client.post(f"/api/v1{BASE}/searches", json=body).status_code == 202
    assert coordinator.begun[0][1] == (
        *("search", f"--backup={BACKUP}", "--topics=orders", "--topics=pay*", "--partitions=orders:0"),
        *("--key-hex=00ff", "--header=trace", "--header=a=b", "--where=/id=7", "--where=/total>1"),
        *("--from=5", "--to=2026-11-20", "--commit=1", "--isolation=read_uncommitted", "--limit=7"),
    )


@pytest.mark.parametrize(
    "body",
    [
        {"key": "x"},
        {"topics": [], "key": "x"},
        {"topic": "orders"},
        {"topic": "orders", "where": ["id=7"]},
        {"topic": "orders", "key": "x", "key_hex": "00"},
        {"topic": "orders", "key_hex": "zz"},
    ],
)
def test_a_search_that_its_job_would_refuse_begins_no_job(
    client: TestClient, coordinator: FakedClusters, body: dict[str, Any]
) -> None:
    assert client.post(f"/api/v1{BASE}/searches", json=body).status_code == 400
    assert coordinator.begun == []


def _ended_search(client: TestClient, coordinator: FakedClusters, result: object) -> str:
    job = client.post(f"/api/v1{BASE}/searches", json={"topic": "orders", "value": "v"}).json()["job"]
    ended = JobEnd(id=job, at_ms=1, exit_code=0, result=json.dumps(result), said="")
    JobRecords(store=coordinator.repository().store, layout=JobLayout(job=job)).put_end(
        ended, secret=coordinator.secrets[job]
    )
    return str(job)


def _found(offset: object) -> dict[str, object]:
    value = {"encoding": "text", "data": EVIL.decode()}
    return {"topic": "orders", "partition": 0, "offset": offset, "timestamp_ms": 5, "key": None, "value": value}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"complete": True, "searched_bytes": 9, "total_bytes": 9}, "Everything was searched."),
        ({"complete": False, "searched_bytes": 1024, "total_bytes": 4096}, "It searched at most 1.0 KiB of 4.0 KiB."),
        ({}, "does not say whether these are all"),
        ({"complete": "yes", "searched_bytes": []}, "does not say whether these are all"),
        ({"searched_bytes": 10**400, "total_bytes": -1}, "does not say whether these are all"),
    ],
)
def test_the_job_of_a_search_shows_its_records_and_whether_they_are_all(
    client: TestClient, coordinator: FakedClusters, more: dict[str, object], says: str
) -> None:
    records = [_found(n) for n in range(150)]
    text = shown(client, f"/jobs/{_ended_search(client, coordinator, {'records': records, **more})}")
    assert says in text
    assert f'href="{BASE}/records/orders/0/7"' in text
    assert "50 more are not shown" in text
    assert "<script>alert" not in text
    if says != "Everything was searched.":
        assert "Everything" not in text


@pytest.mark.parametrize(
    "result", [{"records": 1}, {"records": [1, None, {"topic": "../x"}, _found("x")]}, [], {}, "x"]
)
def test_whatever_a_job_claims_to_have_found_its_page_is_shown(
    client: TestClient, coordinator: FakedClusters, result: object
) -> None:
    text = shown(client, f"/jobs/{_ended_search(client, coordinator, result)}")
    assert "../x/" not in text


def test_each_look_leaves_one_line_with_who_what_and_where(
    connect: Connect,
    tokens: TokenFile,
    secrets: dict[str, str],
    caplog: pytest.LogCaptureFixture,
    coordinator: FakedClusters,
) -> None:
    client = connect(tokens=tokens, token=secrets["operate+records"])
    caplog.set_level("INFO", logger="offsite.journal")
    by = f"looked by=operate-records what={{}} backup={BACKUP}"
    result = {"records": [_found(3), _found(9)]}
    job = _ended_search(client, coordinator, result)
    (begun,) = _looks(caplog)
    assert begun == by.format(f'"search begun as job {job}"') + " topic=orders"
    for path, line in {
        f"{BASE}/records?topic=orders": by.format("records") + " topic=orders limit=50 offsets=orders/0:0-1",
        f"/api/v1{BASE}/records?topic=orders&start=7": by.format("records")
        + " topic=orders start=7 limit=100 offsets=none",
        f"{BASE}/records/orders/0/1": by.format("record") + " topic=orders partition=0 offsets=1",
        f"/api/v1{BASE}/records/orders/0/1": by.format("record") + " topic=orders partition=0 offsets=1",
        f"/api/v1{BASE}/records/orders/0/1/value": by.format('"value of a record"')
        + " topic=orders partition=0 offsets=1",
        f"/jobs/{job}": by.format(f'"search results of job {job}"') + " offsets=orders/0:3-9",
        f"/api/v1/jobs/{job}": by.format(f'"search results of job {job}"') + " offsets=orders/0:3-9",
    }.items():
        caplog.clear()
        assert client.get(path).status_code == 200
        assert _looks(caplog) == [line]
        assert "v" not in [record.getMessage() for record in caplog.records]


def _looks(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.getMessage().startswith("looked")]


AVRO = {"type": "record", "name": "Order", "fields": [{"name": "sku", "type": "string"}]}
PROTOBUF = 'syntax = "proto3"; message Order { string sku = 1; int64 id = 2; }'
DECODED = {
    "AVRO": (json.dumps(AVRO), b"\x06a<b", '"sku": "a<b"', "Order"),
    "PROTOBUF": (PROTOBUF, b"\x00\x0a\x03a<b\x10\x2a", '"id": 42', "Order"),
    "JSON": ("{}", b'{"sku": "a<b"}', '"sku": "a<b"', "orders-value"),
}


@pytest.mark.parametrize("kind", sorted(DECODED))
def test_a_record_is_decoded_by_the_schemas_of_its_backup(client: TestClient, site: Site, kind: str) -> None:
    """Framed as Confluent's serializers frame them; the topic of the registry is in the backup."""
    schema, value, says, name = DECODED[kind]
    key = {"keytype": "SCHEMA", "subject": "orders-value", "version": 1, "magic": 1}
    registered = {"subject": "orders-value", "version": 1, "id": 7, "schemaType": kind, "schema": schema}
    batch = encode([Record(0, 5, 0, json.dumps(key).encode(), json.dumps(registered).encode())])
    commit_batches(site.backup, {SCHEMAS: [bytes(batch)]}, holds_schemas=True)
    put(site, Record(0, 5, 0, b"k", b"\0\0\0\0\7" + value))
    text = html.unescape(shown(client, f"{BASE}/records/orders/0/2"))
    assert says in text
    listed = html.unescape(shown(client, f"{BASE}/records?topic=orders&start=2"))
    assert f"{name}, version 1 of orders-value" in text
    assert f"{name}, version 1 of orders-value" in listed
