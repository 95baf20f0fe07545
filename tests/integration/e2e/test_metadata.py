"""What belongs to a cluster beside its topics: in the backup at every restore point, shown, and restored when asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from offsite.backup.options import BackupRequest
from offsite.backup.plan import plan_backup
from offsite.backup.run import BackupResult, run_backup
from offsite.demo.data import BASE_MS, DemoMessage, read_topic
from offsite.engine.runner import Runner
from offsite.kafka.protocol.metadata import NewTopic
from offsite.model.cluster_settings import Acl, ClientQuota, ClusterSettings, QuotaEntity
from offsite.model.errors import BackupExists, BadOption, KafkaNotAuthorized, TargetNotEmpty
from offsite.model.selection import parse_selection
from offsite.model.topic_choices import parse_renames
from offsite.overview.contents import show_backup
from offsite.repository.repository import Repository
from offsite.restore.cluster_settings import PARTS, AppliedMetadata, parse_metadata
from offsite.restore.plan import IN_USE, PlannedRestore, prepare_restore
from offsite.restore.plan_report import report_plan
from offsite.restore.preflight import Circumstances, check_settings
from offsite.restore.request import RestoreRequest
from offsite.restore.result import RestoreResult
from offsite.restore.run import run_restore
from offsite.restore.target_topics import create_topics, finish_topics
from offsite.sandbox import SandboxInfo
from offsite.stores.open_store import open_store
from offsite.upkeep.verification.run import verify_deep
from tests.conftest import USERS, SecureBroker
from tests.inline_runner import CrossingRunner
from tests.integration.e2e.command import offsite, succeed
from tests.integration.e2e.site import BACKUP, SLOTS, Site, new_name
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
REGISTRY = (
    (b'{"keytype":"NOOP","magic":0}', b""),
    (b'{"keytype":"CONFIG","subject":null,"magic":0}', b'{"compatibilityLevel":"FULL"}'),
    (b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}', b'{"id":1,"deleted":true,"schema":"\\"int\\""}'),
    (b'{"keytype":"DELETE_SUBJECT","subject":"a","magic":0}', b'{"subject":"a","version":1}'),
    (b'{"keytype":"SCHEMA","subject":"b","version":1,"magic":1}', None),
)
QUOTA = ClientQuota(entity=QuotaEntity(parts=(("user", "carol"),)), limits=(("producer_byte_rate", 1e6),))


@pytest.fixture(scope="module")
def spark() -> Runner:
    """None: settings of clusters are the driver's work."""
    return CrossingRunner()


@pytest.fixture
def source(secure_broker: SecureBroker, tmp_path: Path, spark: Runner) -> Site:
    """A cluster with a schema registry, users, rules and limits."""
    site = Site(Cluster(secure_broker.info.bootstrap), Repository.init(open_store(str(tmp_path / "repository"))), spark)
    admin = site.cluster.admin
    if SCHEMAS not in admin.topics():
        admin.create_topics([NewTopic(name=SCHEMAS, partitions=1, configs={"cleanup.policy": "compact"})])
        site.produce(SCHEMAS, [DemoMessage(key=key, value=value, timestamp_ms=BASE_MS) for key, value in REGISTRY])
        assert admin.settings.create_acls([ORDERS]) == admin.settings.set_client_quotas([QUOTA]) == [""]
        wait_until(lambda: ORDERS in admin.settings.acls() and QUOTA in admin.settings.client_quotas())
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
    source.cluster.add_acls(later)
    back_up(source)
    first, second = settings_of(source, commit=1), settings_of(source)
    assert first.acls is not None
    assert second.acls == tuple(sorted({*first.acls, later}))
    assert ORDERS in first.acls
    assert later not in first.acls
    assert first.quotas == second.quotas == source.cluster.admin.settings.client_quotas()
    assert {user.name for user in first.scram_users or ()} == set(USERS)


def test_no_secret_of_a_user_is_in_the_repository(source: Site, secure_broker: SecureBroker, tmp_path: Path) -> None:
    back_up(source, source.make_topic())
    written = b"".join(each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())
    assert b"alice" in written
    assert not [secret for secret in secure_broker.users.values() if secret.encode() in written]


def test_settings_that_may_not_be_read_are_named_and_the_backup_is_made(
    source: Site, secure_broker: SecureBroker
) -> None:
    topic = source.make_topic()
    source.cluster.add_acls(replace(ORDERS, resource_type="CLUSTER", resource="kafka-cluster"))
    alice = as_alice(secure_broker)
    result = back_up(Site(alice, source.repository, source.spark), topic)
    assert len(result.not_read) == 3
    assert all("AUTHORIZATION_FAILED" in problem for problem in result.not_read)
    found = settings_of(source)
    assert (found.acls, found.quotas, found.scram_users) == (None, None, None)
    assert not back_up(source).not_read
    assert settings_of(source).acls is not None


def test_a_topic_whose_settings_may_not_be_read_any_more_goes_on_with_the_last_ones(
    source: Site, secure_broker: SecureBroker
) -> None:
    topic, other = source.make_topic(retention_bytes="123456"), source.make_topic()
    back_up(source, topic, other)
    allowed = ("READ", "DESCRIBE")
    source.cluster.add_acls(*(replace(ORDERS, resource=topic, principal="User:alice", operation=o) for o in allowed))
    for each in (topic, other):
        source.produce(each, [DemoMessage(key=b"k", value=b"v", timestamp_ms=BASE_MS)])
    denied = back_up(Site(as_alice(secure_broker), source.repository, source.spark))
    assert (denied.records, denied.unread_topics, denied.failed, denied.complete) == (2, (topic,), (), False)
    (shape,) = [each for each in source.backup.state().topics.values() if each.topic == topic]
    assert (dict(shape.configs)["retention.bytes"], shape.configs_unread) == ("123456", True)
    again = back_up(source)
    assert (again.unread_topics, again.complete) == ((), True)


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


def test_verify_names_settings_that_were_altered(source: Site, tmp_path: Path) -> None:
    topic = source.make_topic()
    back_up(source, topic)
    first = source.backup.state().metadata
    source.cluster.add_acls(replace(ORDERS, principal=f"User:{topic}"))
    back_up(source)
    assert first is not None
    path = tmp_path / "repository" / first.key
    path.write_bytes(path.read_bytes().replace(b"carol", b"mallo"))
    result = verify_deep(source.backup, source.spark)
    assert [(each.key, each.first_commit) for each in result.damaged_snapshots] == [(first.key, 1)]
    assert (result.ok, result.damaged) == (False, ())


def prepare(site: Site, target: Cluster, *topics: str, **request: Any) -> PlannedRestore:
    asked = RestoreRequest(selection=parse_selection(topics or ["*"]), **request)
    return prepare_restore(site.backup, target.admin, asked)


def restore(site: Site, target: Cluster, *topics: str, **request: Any) -> RestoreResult:
    prepared = prepare(site, target, *topics, **request)
    return run_restore(prepared, cluster=target, runner=site.spark)


def as_alice(broker: SecureBroker) -> Cluster:
    login = config(broker, "SASL_PLAINTEXT", **plain("alice", broker.users["alice"]))
    return Cluster(broker.info.listeners["SASL_PLAINTEXT"], login)


@pytest.fixture
def elsewhere(second_broker: SandboxInfo) -> Iterator[Cluster]:
    """Another cluster, without topics and without an authorizer."""
    target = Cluster(second_broker.bootstrap)
    delete_topics(target)  # also what tests of other files left there
    yield target
    delete_topics(target)


def topics_of(cluster: Cluster) -> list[str]:
    return [name for name, topic in cluster.admin.topics().items() if not topic.internal]


def delete_topics(cluster: Cluster) -> None:
    cluster.admin.delete_topics(topics_of(cluster))
    wait_until(lambda: topics_of(cluster) == [])


def test_a_plan_shows_what_the_target_lacks_and_changes_nothing(source: Site, elsewhere: Cluster) -> None:
    topic = source.make_topic(retention_bytes="123456", cleanup_policy="compact,delete")
    source.cluster.add_acls(replace(ORDERS, resource=topic))
    back_up(source, topic)
    report = report_plan(prepare(source, elsewhere))
    schemas, other = report.topics
    assert (schemas.source, schemas.holds_schemas, other.holds_schemas) == (SCHEMAS, True, False)
    assert [(diff.setting, diff.now, diff.then) for diff in other.settings] == [
        ("cleanup.policy", None, "compact,delete"),
        ("retention.bytes", None, "123456"),
    ]
    changes = [(str(each.entity), each.limit, each.now, each.then) for each in report.metadata.limits]
    assert ("user carol", "producer_byte_rate", None, 1e6) in changes
    assert {user.name for user in report.metadata.users_by_hand} == set(USERS)
    assert any("no authorizer" in note for note in report.notes)
    assert topics_of(elsewhere) == []


def test_the_cluster_s_settings_are_set_only_when_that_is_asked(source: Site, elsewhere: Cluster) -> None:
    topic = source.make_topic()
    back_up(source, topic)
    assert restore(source, elsewhere, topic).metadata == AppliedMetadata()
    assert QUOTA not in elsewhere.admin.settings.client_quotas()
    elsewhere.admin.delete_topics([topic])
    applied = restore(source, elsewhere, topic, metadata=PARTS).metadata
    assert (applied.acls, applied.limits, applied.refused) == (0, 1, ())
    wait_until(lambda: QUOTA in elsewhere.admin.settings.client_quotas())


def test_rules_on_a_topic_follow_its_new_name(source: Site) -> None:
    topic = source.make_topic()
    target = new_name(topic)
    own = replace(ORDERS, resource=topic)
    prefixed = replace(ORDERS, resource=topic, pattern="PREFIXED", operation="WRITE")
    source.cluster.add_acls(own, prefixed)
    back_up(source, topic)
    result = restore(source, source.cluster, topic, renames=parse_renames([f"{topic}={target}"]), metadata=("acls",))
    assert result.metadata == AppliedMetadata(acls=1)
    wait_until(lambda: replace(own, resource=target) in source.cluster.admin.settings.acls())


def test_schemas_come_back_first_with_the_topics_that_need_them(source: Site, elsewhere: Cluster) -> None:
    topic = source.make_topic()
    source.produce(topic, [DemoMessage(key=b"k", value=b"\0\0\0\0\1v", timestamp_ms=BASE_MS)])
    back_up(source, topic)
    prepared = prepare(source, elsewhere)
    assert [each.source.topic for each in prepared.plan.topics] == [SCHEMAS, topic]
    result = run_restore(prepared, cluster=elsewhere, runner=source.spark)
    assert result.topics.keys() == {SCHEMAS, topic}
    source.assert_same(source.read(SCHEMAS), read_topic(elsewhere.bootstrap, SCHEMAS))
    elsewhere.assert_configs(SCHEMAS, {"cleanup.policy": "compact"})


def test_schemas_in_use_on_their_own_cluster_are_left_alone_unless_they_are_named(source: Site) -> None:
    topic = source.make_topic()
    source.produce(topic, [DemoMessage(key=b"k", value=b"v", timestamp_ms=BASE_MS)])
    back_up(source, topic)
    renames = parse_renames([f"{topic}={new_name(topic)}"])
    result = restore(source, source.cluster, renames=renames)
    assert result.skipped == ((SCHEMAS, IN_USE),)
    with pytest.raises(TargetNotEmpty, match=SCHEMAS):
        prepare(source, source.cluster, SCHEMAS)


def test_schemas_of_another_cluster_s_registry_are_never_mixed_with_its_own(source: Site, elsewhere: Cluster) -> None:
    back_up(source, source.make_topic())
    elsewhere.admin.create_topics([NewTopic(name=SCHEMAS, partitions=1)])
    elsewhere.produce(SCHEMAS, [b"{}"])
    with pytest.raises(TargetNotEmpty, match=SCHEMAS):
        prepare(source, elsewhere)


def test_what_the_target_cannot_have_is_left_out_by_name(source: Site, elsewhere: Cluster) -> None:
    """A cluster with tiered storage, three brokers and another release, as a smaller one takes its backup."""
    topic = source.make_topic()
    source.produce(topic, [DemoMessage(key=b"k", value=b"v", timestamp_ms=BASE_MS)])
    back_up(source, topic)
    prepared = prepare(source, elsewhere, topic)
    (planned,) = prepared.plan.topics
    strange = {"segment.bytes": "1048576", "remote.storage.enable": "true", "min.insync.replicas": "2", "shiny": "1"}
    shape = replace(planned.source, configs=tuple(sorted(strange.items())), replication_factor=3)
    given = Circumstances(brokers=1, now_ms=BASE_MS)
    (settings,), _ = check_settings(elsewhere.admin, [replace(planned, source=shape)], (), given)
    assert {each.setting for each in settings.left_out} == {"remote.storage.enable", "min.insync.replicas", "shiny"}
    create_topics(elsewhere.admin, [settings])
    finish_topics(elsewhere.admin, [settings])
    elsewhere.assert_configs(topic, {"segment.bytes": "1048576", "min.insync.replicas": "1"})


def test_a_restore_that_may_not_write_is_refused_before_it_begins(source: Site, secure_broker: SecureBroker) -> None:
    topic = source.make_topic()
    target, made = new_name(topic), new_name(topic)
    source.produce(topic, [DemoMessage(key=b"k", value=b"v", timestamp_ms=BASE_MS)])
    back_up(source, topic)
    admin = source.cluster.admin
    admin.create_topics([NewTopic(name=target, partitions=1, configs={"message.timestamp.type": "LogAppendTime"})])
    rules = [replace(ORDERS, resource=name, principal="User:bob", operation="ALL") for name in (target, made)]
    allowed = ("READ", "WRITE", "DESCRIBE_CONFIGS")
    rules += [replace(ORDERS, resource=target, principal="User:alice", operation=each) for each in allowed]
    rules += [replace(ORDERS, resource_type="CLUSTER", resource="kafka-cluster")]  # else everyone may make topics
    source.cluster.add_acls(*rules)
    alice = as_alice(secure_broker)
    for name, reason in ((target, "ALTER_CONFIGS"), (made, "TOPIC_AUTHORIZATION_FAILED")):
        with pytest.raises(KafkaNotAuthorized, match=reason) as refusal:
            prepare(source, alice, topic, renames=parse_renames([f"{topic}={name}"]))
        assert name in refusal.value.message
    assert source.cluster.end(target) == 0
    assert made not in admin.topics()


def test_what_may_not_be_written_into_a_topic_just_made_is_known_before_the_first_record(
    source: Site, secure_broker: SecureBroker
) -> None:
    """Brokers tell of rights on topics that exist only."""
    topic = source.make_topic()
    target = new_name(topic)
    source.produce(topic, [DemoMessage(key=b"k", value=b"v", timestamp_ms=BASE_MS)])
    back_up(source, topic)
    allowed = ("CREATE", "READ", "DESCRIBE_CONFIGS")
    rules = [replace(ORDERS, resource=target, principal="User:alice", operation=each) for each in allowed]
    source.cluster.add_acls(*rules)
    renames = parse_renames([f"{topic}={target}"])
    with pytest.raises(KafkaNotAuthorized, match=f"WRITE, ALTER_CONFIGS on {target}"):
        restore(source, as_alice(secure_broker), topic, renames=renames)
    assert source.cluster.end(target) == 0
    more = [replace(rules[0], operation=each) for each in ("WRITE", "ALTER_CONFIGS")]
    source.cluster.add_acls(*more)
    assert restore(source, as_alice(secure_broker), topic, renames=renames).resumed
    source.assert_same(source.read(topic), source.read(target))


def test_asking_for_rules_that_may_not_be_read_is_refused_before_it_begins(
    source: Site, secure_broker: SecureBroker
) -> None:
    topic = source.make_topic()
    back_up(source, topic)
    source.cluster.add_acls(replace(ORDERS, resource_type="CLUSTER", resource="kafka-cluster"))
    alice = as_alice(secure_broker)
    renames = parse_renames([f"{topic}={topic}-again"])
    with pytest.raises(KafkaNotAuthorized, match="acls of the target"):
        prepare(source, alice, topic, renames=renames, metadata=("acls",))


def test_the_commands_show_settings_and_what_a_restore_would_do_with_them(
    source: Site, elsewhere: Cluster, tmp_path: Path
) -> None:
    topic = source.make_topic(retention_bytes="123456")
    back_up(source, topic)
    where = ("--repo", tmp_path / "repository")
    shown = succeed("show", BACKUP, *where, "--metadata")
    assert {each["topic"]: each["holds_schemas"] for each in shown["topics"]} == {SCHEMAS: True, topic: False}
    assert "User:carol" in {acl["principal"] for acl in shown["settings"]["acls"]}
    assert succeed("show", BACKUP, *where)["settings"] is None
    to = ("--backup", BACKUP, "--bootstrap", elsewhere.bootstrap)
    plan = succeed("restore", "plan", *where, *to, "--metadata", "quotas")
    assert plan["metadata"]["apply"] == ["quotas"]
    assert plan["topics"][1]["settings"] == [
        {"setting": "retention.bytes", "now": None, "backup": "123456", "then": "123456"}
    ]
    refused = offsite("restore", "plan", *where, *to, "--metadata", "users")
    assert (refused.exit_code, refused.error["id"]) == (2, BadOption.id)


@pytest.mark.parametrize(
    ("text", "parts"),
    [("none", ()), ("all", ("acls", "quotas", "groups", "brokers")), ("quotas, acls", ("acls", "quotas"))],
)
def test_metadata_is_asked_for_by_name(text: str, parts: tuple[str, ...]) -> None:
    assert parse_metadata(text) == parts


@pytest.mark.parametrize("text", ["", "users", "acls,none"])
def test_metadata_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadOption, match="metadata"):
        parse_metadata(text)
