"""Rights on the cluster: from the allowed operations reported by brokers (KIP-430), and by requests.

Absence proves neither a right nor a missing right: a list omits invisible entries.
"""

from __future__ import annotations

from collections.abc import Sequence

from offsite.backup.cut.readings import STATE_TOPIC
from offsite.doctor.check import NAMED_MAX, RIGHTS, CheckResult, NotMeasurable, failed, ok, warning
from offsite.doctor.parts import Parts
from offsite.kafka.protocol.broker_errors import TOPIC_AUTHORIZATION_FAILED
from offsite.kafka.protocol.metadata import TopicMetadata
from offsite.log.range import TopicPartition
from offsite.model.names import amount, named
from offsite.model.selection import drill_copies

READ, DESCRIBE, DESCRIBE_CONFIGS = 3, 8, 10
"""Codes of AclOperation."""
_NAMES = {READ: "Read", DESCRIBE: "Describe", DESCRIBE_CONFIGS: "DescribeConfigs"}
GROUPS_MAX = 200
"""Groups whose offsets are requested at most: further requests would only test the same principal again."""
CONFIGS_MAX = 50
_DESCRIBE_GROUPS = (
    "grant Describe on groups and on their topics: a backup has no new offsets of groups that it may not read"
)
_AGAIN = "try again: a backup keeps the offsets that the one before has of these groups, and ends with exit code 3"


def topics(parts: Parts) -> CheckResult:
    """Whether the selected topics may be described and read, with their settings. Without a selection, a topic without
    rights is only a warning."""
    visible, selection = _visible(parts), parts.request.topics
    chosen = _chosen(parts, visible)
    if selection is not None and (missing := selection.missing(visible)):
        return _missing(parts, missing)
    if not chosen:
        raise NotMeasurable("no topic can be seen", cure="if there are topics: grant Describe on them")
    denied = [f"{topic.name} ({lack})" for topic in chosen if (lack := _lack(topic, _NAMES))]
    if denied:
        said = f"not allowed on {len(denied)} of {len(chosen)} topics: {named(denied, most=NAMED_MAX, of='topics')}"
        cure = "grant Describe, DescribeConfigs and Read on the topics to back up"
        return warning(said, cure=cure) if selection is None else failed(said, cure=cure)
    names = [topic.name for topic in chosen[:CONFIGS_MAX]]
    if refused := parts.admin.readable_topic_configs(names).denied:
        said = f"the settings of {named(sorted(refused), most=NAMED_MAX, of='topics')} may not be read"
        return warning(
            said, cure="grant DescribeConfigs: without it, a restore creates topics with the defaults of the cluster"
        )
    return ok(f"{amount(len(chosen), 'topic')} may be described and read, with their settings")


def groups(parts: Parts) -> CheckResult:
    """Whether consumer groups and their offsets are readable."""
    listed = parts.admin.groups.list()
    sees_all = parts.metadata.allows(DESCRIBE)
    if not listed and not sees_all:
        raise NotMeasurable("no group can be seen", cure="if there are groups: grant Describe on them")
    if not listed:
        return ok("all groups are visible, and there are none")
    queried = listed[:GROUPS_MAX]
    fetched = parts.admin.groups.offsets(queried)
    if wrong := fetched.failed:
        said = named([f"{failure.group}: {failure.message}" for failure in wrong], most=NAMED_MAX, of="groups")
        is_denied = any(failure.error.endswith("_AUTHORIZATION_FAILED") for failure in wrong)
        return warning(said, cure=_DESCRIBE_GROUPS if is_denied else _AGAIN)
    rest = "" if sees_all else "; others may be hidden"
    return ok(f"{_counted(len(fetched.groups), len(listed))} returned their offsets{rest}")


def log_dirs(parts: Parts) -> CheckResult:
    """Whether brokers report log sizes."""
    if not parts.metadata.allows(DESCRIBE):
        cure = "grant Describe on the cluster; without it, plans show no sizes and cannot check free space"
        return warning("the sizes of logs are not visible", cure=cure)
    partitions = [
        TopicPartition(topic=topic.name, partition=partition.partition)
        for topic in _visible(parts).values()
        for partition in topic.partitions[:1]
        if partition.leader >= 0
    ][:CONFIGS_MAX]
    if not partitions:
        raise NotMeasurable("there is no partition with a readable log size")
    sizes = parts.admin.sizes_bytes(partitions)
    if not sizes:
        return warning(
            "brokers returned no sizes", cure="plans will show no sizes; see the log for the reason: --log-file FILE"
        )
    return ok(f"sizes known for {len(sizes)} of {len(partitions)} partitions")


def transactions(parts: Parts) -> CheckResult:
    """Whether the outcomes of transactions are readable."""
    topic = parts.router.metadata([STATE_TOPIC], operations=True).topics.get(STATE_TOPIC)
    cure = (
        f"grant Read and Describe on topic {STATE_TOPIC}: without them, nobody knows which transactions are complete, "
        "and their records are less certain in a consistent cut"
    )
    if topic is not None and topic.error_code == TOPIC_AUTHORIZATION_FAILED:
        return warning("the log of transactions is not visible", cure=cure)
    if topic is None or not topic.partitions:
        raise NotMeasurable("there is no log of transactions yet: no transaction was made")
    if lack := _lack(topic, {READ: "Read", DESCRIBE: "Describe"}):
        return warning(f"not allowed on the log of transactions: {lack}", cure=cure)
    return ok("the log of transactions is readable")


def outcomes(parts: Parts) -> CheckResult:
    """Whether outcomes of transactions may be written. Backups never write outcomes, and their lack is no failure."""
    if not (missing := parts.admin.missing_for_outcomes()):
        return ok("outcomes of transactions may be written: restores into this cluster keep the offsets of any log")
    return ok(
        "outcomes of transactions may not be written, which no backup needs. Restores into this cluster replay "
        "transactions one after the other, which takes longer, and do not keep the offsets of logs with many gaps; "
        f"to change that, they need {missing}"
    )


def _visible(parts: Parts) -> dict[str, TopicMetadata]:
    return {name: topic for name, topic in parts.metadata.topics.items() if topic.partitions}


def _chosen(parts: Parts, visible: dict[str, TopicMetadata]) -> Sequence[TopicMetadata]:
    """The selected topics among the visible ones; without a selection all visible topics except Kafka's own."""
    internal = frozenset(name for name, topic in visible.items() if topic.internal)
    if (selection := parts.request.topics) is None:
        return [visible[name] for name in sorted(set(visible) - internal)]
    return [visible[name] for name in selection.select(visible, internal=internal, hidden=drill_copies(visible))]


def _missing(parts: Parts, names: Sequence[str]) -> CheckResult:
    """For a named topic, brokers report whether it is hidden or missing."""
    answers = parts.router.metadata(list(names)).topics.values()
    hidden = sorted(topic.name for topic in answers if topic.error_code == TOPIC_AUTHORIZATION_FAILED)
    if hidden:
        said = f"not visible: {named(hidden, most=NAMED_MAX, of='topics')}"
        return failed(said, cure="grant Describe, DescribeConfigs and Read on them", exit_code=RIGHTS)
    said = f"there is no topic {named(names, most=NAMED_MAX, of='topics')}"
    return failed(said, cure="see the names with: kcat -L -b BOOTSTRAP", exit_code=2)


def _lack(topic: TopicMetadata, operations: dict[int, str]) -> str:
    return ", ".join(name for code, name in operations.items() if not topic.allows(code))


def _counted(returned: int, listed: int) -> str:
    return amount(listed, "group") if returned == listed else f"{returned} of {listed} groups"
