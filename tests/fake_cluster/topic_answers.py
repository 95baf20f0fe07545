"""What a broker answers about itself, its topics and their settings, and about who may do what."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from offsite.kafka.protocol.broker_errors import (
    INVALID_CONFIG,
    NONE,
    SECURITY_DISABLED,
    TOPIC_ALREADY_EXISTS,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from offsite.kafka.protocol.request import Api
from tests.fake_cluster.cluster import BROKER_CONFIGS, THE_CLUSTER, TOPIC_DEFAULTS, FakeCluster, FakeTopic
from tests.fake_cluster.messages import Answer
from tests.fake_cluster.partition_log import PartitionLog
from tests.misbehaving_broker.messages import ANSWERS

NODE = 1
_TOPIC, _GROUP = 2, 32
_SET_ON_TOPIC, _SET_ON_BROKER, _DEFAULT = 1, 4, 5
_SET_ON_GROUP = 8
_GROUP_AUTHORIZATION_FAILED, _CLUSTER_AUTHORIZATION_FAILED = 30, 31
_DELETE = 1
_DESCRIBE_CONFIGS = 10
_OPERATIONS = frozenset(range(3, 13))
_NO_ID = UUID(int=0)
_SHARE_APIS = {Api.DESCRIBE_SHARE_GROUP_OFFSETS, Api.ALTER_SHARE_GROUP_OFFSETS, Api.DELETE_SHARE_GROUP_OFFSETS}


def api_versions(cluster: FakeCluster, _asked: Any) -> Answer:
    newest = {int(key): int(answer.max_version) for key, answer in ANSWERS.items()}
    if not cluster.has_share_groups:
        newest = {key: version for key, version in newest.items() if key not in _SHARE_APIS}
    elif not cluster.sets_positions:
        newest[Api.DESCRIBE_SHARE_GROUP_OFFSETS] = 0
    newest |= cluster.newest_versions
    return {"api_keys": [{"api_key": key, "max_version": version} for key, version in newest.items()]}


def metadata(cluster: FakeCluster, asked: Any) -> Answer:
    listed = [name for name in cluster.topics if name not in cluster.hidden]
    names = listed if asked.topics is None else [each.name for each in asked.topics]
    address = cluster.advertised or cluster.address
    broker = {"node_id": NODE, "host": address.host, "port": address.port, "rack": ""}
    return {
        "brokers": [broker] if cluster.knows_brokers else [],
        "cluster_id": cluster.cluster_id,
        "controller_id": NODE,
        "topics": [_described(cluster, name) for name in names],
        "authorized_operations": _OPERATIONS - cluster.forbidden.get(THE_CLUSTER, set()),
    }


def _described(cluster: FakeCluster, name: str) -> Answer:
    topic = cluster.topics.get(name)
    if name in cluster.hidden:  # whether it is there is not looked at
        denied = TOPIC_AUTHORIZATION_FAILED
        return {"name": name, "error_code": denied, "topic_id": _NO_ID, "authorized_operations": set()}
    if topic is None:
        missing = UNKNOWN_TOPIC_OR_PARTITION
        return {"name": name, "error_code": missing, "topic_id": _NO_ID, "authorized_operations": set()}
    return {
        "name": name,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "partitions": [_partition(topic, number, log) for number, log in enumerate(topic.partitions)],
        "authorized_operations": _OPERATIONS - cluster.forbidden.get(name, set()),
    }


def _partition(topic: FakeTopic, number: int, log: PartitionLog) -> Answer:
    replicas = list(range(NODE, NODE + topic.replication_factor))
    return {
        "partition_index": number,
        "leader_id": NODE,
        "leader_epoch": log.epoch,
        "replica_nodes": replicas,
        "isr_nodes": replicas,
    }


def create_topics(cluster: FakeCluster, asked: Any) -> Answer:
    return {"topics": [_created(cluster, each, only_try=asked.validate_only) for each in asked.topics]}


def _created(cluster: FakeCluster, new: Any, *, only_try: bool) -> Answer:
    configs = {each.name: each.value for each in new.configs}
    if new.name in cluster.topics:
        return {"name": new.name, "error_code": TOPIC_ALREADY_EXISTS, "error_message": "it exists"}
    if bad := sorted(configs.keys() & cluster.refused_settings):
        return {"name": new.name, "error_code": INVALID_CONFIG, "error_message": f"unknown setting {bad[0]}"}
    if not only_try:
        topic = FakeTopic(new.name, [PartitionLog() for _ in range(new.num_partitions)], configs)
        topic.replication_factor = max(1, new.replication_factor)
        cluster.topics[new.name] = topic
    return {"name": new.name}


def delete_topics(cluster: FakeCluster, asked: Any) -> Answer:
    gone = {name: cluster.topics.pop(name, None) for name in asked.topic_names}
    return {
        "responses": [
            {"name": name, "error_code": UNKNOWN_TOPIC_OR_PARTITION if topic is None else NONE}
            for name, topic in gone.items()
        ]
    }


def describe_configs(cluster: FakeCluster, asked: Any) -> Answer:
    return {"results": [_configs(cluster, each.resource_type, each.resource_name) for each in asked.resources]}


def _configs(cluster: FakeCluster, kind: int, name: str) -> Answer:
    told = {"resource_type": kind, "resource_name": name}
    if kind == _GROUP:
        return told | _group_configs(cluster, name)
    if kind != _TOPIC:
        if _DESCRIBE_CONFIGS in cluster.forbidden.get(THE_CLUSTER, set()):
            return told | {"error_code": _CLUSTER_AUTHORIZATION_FAILED}
        own, of_all = (_entries(dict.fromkeys(names, "1"), source) for source, names in cluster.dynamic.items())
        return told | {"configs": [*_entries(BROKER_CONFIGS, _SET_ON_BROKER), *own, *of_all]}
    topic = cluster.topics.get(name)
    if topic is None:
        return told | {"error_code": UNKNOWN_TOPIC_OR_PARTITION}
    if name in cluster.hidden or _DESCRIBE_CONFIGS in cluster.forbidden.get(name, set()):
        return told | {"error_code": TOPIC_AUTHORIZATION_FAILED, "error_message": "Topic authorization failed."}
    defaults = {key: value for key, value in TOPIC_DEFAULTS.items() if key not in topic.configs}
    return told | {"configs": [*_entries(topic.configs, _SET_ON_TOPIC), *_entries(defaults, _DEFAULT)]}


def _group_configs(cluster: FakeCluster, name: str) -> Answer:
    if _DESCRIBE_CONFIGS in cluster.forbidden.get(name, set()):
        return {"error_code": _GROUP_AUTHORIZATION_FAILED}
    own = {"consumer.session.timeout.ms": "50000"}
    if name in cluster.groups and cluster.groups[name].reset:
        own["share.auto.offset.reset"] = cluster.groups[name].reset
    return {"configs": list(_entries(own, _SET_ON_GROUP))}


def list_config_resources(cluster: FakeCluster, asked: Any) -> Answer:
    named = [(kind, name) for kind, names in cluster.configured.items() for name in names]
    wanted = [{"resource_name": name, "resource_type": kind} for kind, name in named if kind in asked.resource_types]
    return {"config_resources": wanted}


def _entries(configs: dict[str, str], source: int) -> Iterable[Answer]:
    return ({"name": name, "value": value, "config_source": source} for name, value in configs.items())


def alter_configs(cluster: FakeCluster, asked: Any) -> Answer:
    return {"responses": [_altered(cluster, each) for each in asked.resources]}


def _altered(cluster: FakeCluster, asked: Any) -> Answer:
    told = {"resource_type": asked.resource_type, "resource_name": asked.resource_name}
    if asked.resource_type != _TOPIC:
        settings = {setting.name: setting.value for setting in asked.configs}
        if bad := sorted(settings.keys() & cluster.refused_settings):
            return told | {"error_code": INVALID_CONFIG, "error_message": f"unknown setting {bad[0]}"}
        cluster.set_configs.setdefault((asked.resource_type, asked.resource_name), {}).update(settings)
        return told
    topic = cluster.topics.get(asked.resource_name)
    if topic is None:
        return told | {"error_code": UNKNOWN_TOPIC_OR_PARTITION}
    for each in asked.configs:
        if each.config_operation == _DELETE:
            topic.configs.pop(each.name, None)
        else:
            topic.configs[each.name] = each.value
    return told


def describe_acls(cluster: FakeCluster, _asked: Any) -> Answer:
    if cluster.acls is None:
        return {"error_code": SECURITY_DISABLED, "error_message": "no authorizer"}
    return {"resources": [_acl(*each) for each in cluster.acls]}


def _acl(  # noqa: PLR0917  # as Kafka names a rule
    kind: int, name: str, pattern: int, principal: str, host: str, operation: int, permission: int
) -> Answer:
    rule = {"principal": principal, "host": host, "operation": operation, "permission_type": permission}
    return {"resource_type": kind, "resource_name": name, "pattern_type": pattern, "acls": [rule]}


def create_acls(cluster: FakeCluster, asked: Any) -> Answer:
    if cluster.acls is None:
        return {"results": [{"error_code": SECURITY_DISABLED, "error_message": ""} for _ in asked.creations]}
    cluster.acls += [
        (
            each.resource_type,
            each.resource_name,
            each.resource_pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for each in asked.creations
    ]
    return {"results": [{"error_message": ""} for _ in asked.creations]}


def describe_quotas(cluster: FakeCluster, _asked: Any) -> Answer:
    return {
        "error_message": None,
        "entries": [
            {"entity": _entity(entity), "values": [{"key": key, "value": value} for key, value in limits.items()]}
            for entity, limits in cluster.quotas.items()
        ],
    }


def alter_quotas(cluster: FakeCluster, asked: Any) -> Answer:
    for each in asked.entries:
        entity = tuple((part.entity_type, part.entity_name or "") for part in each.entity)
        cluster.quotas.setdefault(entity, {}).update({limit.key: limit.value for limit in each.ops})
    told = [tuple((part.entity_type, part.entity_name or "") for part in each.entity) for each in asked.entries]
    return {"entries": [{"error_message": "", "entity": _entity(entity)} for entity in told]}


def _entity(parts: Iterable[tuple[str, str]]) -> list[Answer]:
    return [{"entity_type": kind, "entity_name": name or None} for kind, name in parts]


def describe_scram_users(cluster: FakeCluster, _asked: Any) -> Answer:
    return {
        "error_message": None,
        "results": [
            {
                "user": name,
                "error_message": None,
                "credential_infos": [{"mechanism": mechanism, "iterations": iterations}],
            }
            for name, (mechanism, iterations) in cluster.scram_users.items()
        ],
    }
