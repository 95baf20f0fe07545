"""What belongs to a cluster beside its topics: in the backup at every restore point, shown, and restored when asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from offsite.kafka.topic_changes import NewTopic
from offsite.model.cluster_settings import Acl, ClientQuota, ClusterSettings, QuotaEntity
from offsite.model.errors import BackupExists
from offsite.model.selection import parse_selection
from offsite.pipeline.runner import Runner
from offsite.repository.open_store import open_store
from offsite.repository.repository import Repository
from offsite.services.backup import BackupRequest, BackupResult, plan_backup, run_backup
from offsite.services.demo.data import BASE_MS, Message
from offsite.services.overview import show_backup
from tests.conftest import SecureBroker
from tests.integration.e2e.site import BACKUP, SLOTS, Site
from tests.integration.kafka.cluster import Cluster, wait_until
from tests.integration.kafka.test_security import config, plain

SCHEMAS = "_schemas"
ORDERS = Acl(
    resource_type="TOPIC",
    resource="orders",
    pattern="LITERAL",
    principal="User:carol",
    host="*",
    operation="READ",
    permission="ALLOW",
)
QUOTA = ClientQuota(entity=QuotaEntity(parts=(("user", "carol"),)), limits=(("producer_byte_rate", 1e6),))


@pytest.fixture
def source(secure_broker: SecureBroker, tmp_path: Path, spark: Runner) -> Site:
    """A cluster with a schema registry, users, rules and limits."""
    site = Site(Cluster(secure_broker.info.bootstrap), Repository.init(open_store(str(tmp_path / "repository"))), spark)
    admin = site.cluster.admin
    if SCHEMAS not in admin.topics():
        admin.create_topics([NewTopic(name=SCHEMAS, partitions=1, configs={"cleanup.policy": "compact"})])
        site.produce(SCHEMAS, [Message(key=b"id 1", value=b"{}", timestamp_ms=BASE_MS)])
        assert admin.create_acls([ORDERS]) == admin.set_client_quotas([QUOTA]) == [""]
        wait_until(lambda: ORDERS in admin.acls() and QUOTA in admin.client_quotas())
    return site


def back_up(site: Site, *topics: str, exclude: tuple[str, ...] = (), schemas_topic: str | None = None) -> BackupResult:
    request = BackupRequest(
        backup=BACKUP,
        selection=parse_selection(topics, exclude) if topics else None,
        schemas_topic=schemas_topic,
    )
    plan = plan_backup(site.repository, site.cluster.admin, request, slots=SLOTS)
    return run_backup(plan, repository=site.repository, kafka=site.cluster.config, runner=site.spark)


def settings_of(site: Site, *, commit: int | None = None) -> ClusterSettings:
    settings = show_backup(site.backup, commit=commit, with_settings=True).settings
    assert settings is not None
    return settings


def schemas_marked(site: Site) -> dict[str, bool]:
    return {topic.topic: topic.holds_schemas for topic in show_backup(site.backup).topics}


def test_a_backup_has_the_cluster_s_settings_as_they_were_at_each_restore_point(source: Site) -> None:
    topic = source.make_topic()
    back_up(source, topic)
    later = replace(ORDERS, principal=f"User:{topic}")
    source.cluster.admin.create_acls([later])
    wait_until(lambda: later in source.cluster.admin.acls())
    back_up(source)
    first, second = settings_of(source, commit=1), settings_of(source)
    assert first.acls is not None
    assert second.acls == tuple(sorted({*first.acls, later}))
    assert ORDERS in first.acls
    assert later not in first.acls
    assert first.quotas == second.quotas == source.cluster.admin.client_quotas()
    assert {user.name for user in first.scram_users or ()} == {"admin", "alice"}


def test_no_secret_of_a_user_is_in_the_repository(source: Site, secure_broker: SecureBroker, tmp_path: Path) -> None:
    back_up(source, source.make_topic())
    written = b"".join(each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())
    assert b"alice" in written
    assert not [secret for secret in secure_broker.users.values() if secret.encode() in written]


def test_settings_that_may_not_be_read_are_named_and_the_backup_is_made(
    source: Site, secure_broker: SecureBroker
) -> None:
    topic = source.make_topic()
    source.cluster.admin.create_acls([replace(ORDERS, resource_type="CLUSTER", resource="kafka-cluster")])
    login = config(secure_broker, "SASL_PLAINTEXT", **plain("alice", secure_broker.users["alice"]))
    alice = Cluster(secure_broker.info.listeners["SASL_PLAINTEXT"], login)
    result = back_up(Site(alice, source.repository, source.spark), topic)
    assert len(result.not_read) == 3
    assert all("AUTHORIZATION_FAILED" in problem for problem in result.not_read)
    assert settings_of(source) == ClusterSettings(acls=None, quotas=None, scram_users=None)
    assert not back_up(source).not_read
    assert settings_of(source).acls is not None


def test_the_schemas_topic_goes_along_unasked_and_is_marked(source: Site) -> None:
    topic = source.make_topic()
    assert back_up(source, topic).topics == 2
    assert back_up(source, topic).topics == 2, "the same selection as in the first run"
    assert schemas_marked(source) == {SCHEMAS: True, topic: False}
    source.assert_verified()


def test_another_topic_may_hold_the_schemas_and_the_first_run_decides(source: Site) -> None:
    topic, registry = source.make_topic(), source.make_topic(cleanup_policy="compact")
    back_up(source, topic, schemas_topic=registry)
    back_up(source, topic)
    assert schemas_marked(source) == {topic: False, registry: True}
    with pytest.raises(BackupExists, match=registry):
        back_up(source, schemas_topic=SCHEMAS)


@pytest.mark.parametrize("way", [{"schemas_topic": ""}, {"exclude": ("_sch*",)}], ids=["turned off", "excluded"])
def test_the_schemas_topic_may_stay_out(source: Site, way: dict[str, str]) -> None:
    topic = source.make_topic()
    back_up(source, topic, **way)  # type: ignore[arg-type]  # one of the two
    back_up(source)
    assert schemas_marked(source) == {topic: False}
