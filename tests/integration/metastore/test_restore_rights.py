"""A restore by somebody who may not do all of it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.net.routing import Router
from offsite.metastore.backup_file import BackupFile
from offsite.metastore.names import BackupName, NameForm
from offsite.model.clock import SystemClock
from offsite.model.cluster_settings import Acl
from offsite.model.errors import KafkaNotAuthorized
from offsite.services.metastore.restore import read_existing, run_restore
from offsite.services.metastore.restore_plan import plan_restore
from offsite.services.metastore.source import CommandSource
from tests.conftest import SecureBroker
from tests.integration.kafka.cluster import Cluster
from tests.integration.kafka.test_security import config, plain
from tests.integration.metastore.ksql import Ksql, create_stream
from tests.unit.metastore.commands import HEADER, command


def test_who_may_delete_a_topic_and_not_write_it_deletes_nothing(secure_broker: SecureBroker, tmp_path: Path) -> None:
    ksql = Ksql(Cluster(secure_broker.info.bootstrap))
    ksql.make_topic()
    ksql.write([create_stream(1)])
    rule = partial(Acl, resource_type="TOPIC", resource=ksql.topic, pattern="LITERAL", host="*")
    allowed = [rule(principal=f"User:{who}", operation="ALL", permission="ALLOW") for who in ("alice", "ANONYMOUS")]
    ksql.cluster.add_acls(*allowed, rule(principal="User:alice", operation="WRITE", permission="DENY"))
    with BackupFile.create(tmp_path, BackupName(topic=ksql.topic, made_ms=1, form=NameForm.KLIP), HEADER) as file:
        file.append([command(7)])
    router = Router(config(secure_broker, "SASL_PLAINTEXT", **plain("alice", secure_broker.users["alice"])))
    source, admin = CommandSource(router, ksql.topic), ClusterAdmin(router)
    plan = plan_restore(source, file.path, existing=read_existing(source, admin), brokers=1, skip_incompatible=False)
    with pytest.raises(KafkaNotAuthorized, match="Write on topic"):
        run_restore(plan, router, clock=SystemClock())
    assert ksql.written() == [create_stream(1)]
