"""Schema ids of another registry, written by Spark's workers into a real cluster: what a consumer reads means what it
meant, whatever compressed it."""

from __future__ import annotations

import itertools
import json
import os
import signal
import threading
from pathlib import Path

import pytest

from offsite.backup.options import BackupRequest
from offsite.backup.plan import plan_backup
from offsite.backup.run import run_backup
from offsite.demo.data import BASE_MS, DemoMessage, read_topic
from offsite.model.selection import parse_selection
from offsite.model.topic_choices import parse_renames
from offsite.restore.plan import prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.run import run_restore
from offsite.sandbox import SandboxInfo
from offsite.schemas.read_registry import read_registry
from offsite.schemas.registry_client import RegistryClient
from tests.framed_topics import ORDER, PRICE, address_of, framed, meanings, payload, reader_of, take_ids
from tests.integration.e2e.command import start, succeed
from tests.integration.e2e.site import BACKUP, SLOTS, Site
from tests.schema_registry import SchemaRegistryServer, serving

COUNT = 300
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.mark.parametrize("offsets", ["preserve", "translate"])
def test_what_every_codec_of_a_client_holds_gets_the_ids_of_the_target(site: Site, offsets: str) -> None:
    with serving(SchemaRegistryServer()) as registry, serving(SchemaRegistryServer()) as there:
        take_ids(there, 10)
        topic = site.make_topic(partitions=2)
        registry.register("price", json.dumps(PRICE))
        used = [{"name": "shop.Price", "subject": "price", "version": 1}]
        value_id = registry.register(f"{topic}-value", json.dumps(ORDER), references=used)
        key_id = registry.register(f"{topic}-key", '{"title": "Key"}', schemaType="JSON")
        for start, codec in enumerate(CODECS):
            records = [
                DemoMessage(
                    key=framed(key_id, payload("json", number % 5)),
                    value=framed(value_id, payload("avro", number)),
                    timestamp_ms=BASE_MS + number,
                    partition=number % 2,
                )
                for number in range(start * COUNT, (start + 1) * COUNT)
            ]
            site.produce(topic, records, compression_type=codec, linger_ms=50)
        back_up(site, topic, registry)
        request = RestoreRequest(
            selection=parse_selection([topic]), renames=parse_renames([f"{topic}={topic}.back"]), offsets=offsets
        )
        prepared = prepare_restore(site.backup, site.cluster.admin, request, registry=address_of(there))
        result = run_restore(prepared, cluster=site.cluster, runner=site.spark)
        assert (result.verified, result.findings) == (True, ())
        assert result.schema_ids is not None
        assert (result.schema_ids.changed, result.schema_ids.left) == (2 * len(CODECS) * COUNT, 0)
        source = read_topic(site.cluster.bootstrap, topic)
        back = read_topic(site.cluster.bootstrap, f"{topic}.back")
        reader_here, reader_there = reader_of(registry), reader_of(there)
        for partition in range(2):
            before, after = source[partition], back[partition]
            assert [(r.offset, r.timestamp_ms) for r in after] == [(r.offset, r.timestamp_ms) for r in before]
            for column in ("key", "value"):
                old, new = ([getattr(record, column) for record in log] for log in (before, after))
                assert meanings(reader_there, new) == meanings(reader_here, old)
                assert new != old


@pytest.mark.soak
def test_a_restore_that_is_killed_while_it_imports_schemas_goes_on(
    site: Site, broker: SandboxInfo, tmp_path: Path
) -> None:
    """No producer can register in subjects that it had opened, so the next run closes them."""
    with serving(SchemaRegistryServer(first_id=100)) as registry, serving(SchemaRegistryServer()) as there:
        topic = site.make_topic()
        schema_ids = [registry.register(f"{topic}-{column}", json.dumps(PRICE)) for column in ("key", "value")]
        registry.register(f"{topic}-value", '{"title": "Second"}', schemaType="JSON")
        assert len(set(schema_ids)) == 1
        content = framed(schema_ids[0], b"\x02")
        site.produce(topic, [DemoMessage(key=content, value=content, timestamp_ms=BASE_MS)] * COUNT)
        ends = ["--repo", tmp_path / "repository", "--bootstrap", broker.bootstrap, "--backup", "b"]
        succeed("backup", "run", *ends, "--topics", topic, "--registry", registry.url)
        words = ["restore", "run", *ends, "--rename", f"{topic}={topic}.back", "--registry", there.url, "--yes"]
        reached, go_on, begun = threading.Event(), threading.Event(), itertools.count(1)

        def pause(method: str, target: str) -> None:
            if method == "POST" and target.endswith("/versions") and next(begun) == 2:
                reached.set()
                go_on.wait(60)

        there.interfere = pause
        run = start(*words)
        try:
            assert reached.wait(60)
        finally:
            os.killpg(run.pid, signal.SIGKILL)
            go_on.set()
            run.communicate()
        there.interfere = lambda _method, _target: None
        assert "IMPORT" in there.modes.values()
        result = succeed(*words)
        assert (result["verified"], result["schema_ids"]["way"]) == (True, "keep")
        assert there.modes == {"": "READWRITE"}
        client = RegistryClient(address_of(there))
        assert read_registry(client).versions == read_registry(RegistryClient(address_of(registry))).versions
        (back,) = read_topic(site.cluster.bootstrap, f"{topic}.back").values()
        assert [(record.key, record.value) for record in back] == [(content, content)] * COUNT


def back_up(site: Site, topic: str, registry: SchemaRegistryServer) -> None:
    request = BackupRequest(backup=BACKUP, selection=parse_selection([topic]), registry=registry.url)
    plan = plan_backup(site.repository, site.cluster.admin, request, slots=SLOTS)
    run_backup(plan, repository=site.repository, kafka=site.cluster.config, runner=site.spark)
