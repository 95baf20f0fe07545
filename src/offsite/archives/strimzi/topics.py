"""The KafkaTopic resources of a restore point. Pure.

A topic keeps its name. Where Kubernetes would refuse that name for a resource, or two topics would share it, the
resource gets another name, and names the topic in `spec.topicName`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator

from offsite.archives.strimzi.manifest import NAME_MAX_CHARS, Manifest, is_name, manifest
from offsite.model.options import StrimziVersion
from offsite.repository.commit import TopicShape
from offsite.restore.preflight import OF_THE_SOURCE

_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_DIGITS_MIN, _DIGITS_MAX = 8, 64
"""Hexadecimal digits of SHA-256 behind a changed name: as few as keep it apart from all other names."""


def kafka_topics(shapes: Iterable[TopicShape], *, cluster: str, version: StrimziVersion) -> tuple[Manifest, ...]:
    """A resource for each topic, in the order of `shapes`."""
    listed = tuple(shapes)
    names = resource_names([shape.topic for shape in listed])
    return tuple(
        manifest("KafkaTopic", names[shape.topic], _spec(shape, names[shape.topic]), cluster=cluster, version=version)
        for shape in listed
    )


def resource_names(topics: Collection[str]) -> dict[str, str]:
    """The name of each topic's resource: valid, unique, and the same whatever other topics there are, unless a topic
    has the very name that would be made up."""
    names = {topic: topic for topic in topics if is_name(topic)}
    taken = set(names)
    for topic in sorted(set(topics) - taken):
        names[topic] = next(name for name in _made_up(topic) if name not in taken)
        taken.add(names[topic])
    return names


def _made_up(topic: str) -> Iterator[str]:
    digest = hashlib.sha256(topic.encode()).hexdigest()
    words = _NOT_IN_NAMES.sub("-", topic.lower()).strip("-")
    for digits in range(_DIGITS_MIN, _DIGITS_MAX + 1):
        beginning = words[: NAME_MAX_CHARS - digits - 1].rstrip("-")
        yield f"{beginning}-{digest[:digits]}".lstrip("-")


def _spec(shape: TopicShape, name: str) -> Manifest:
    """What a restore gives the topic. An archive of another tool may not know the replication factor: then that of the
    brokers counts. Settings that name brokers of the source stay out, as in a restore."""
    configs = {setting: value for setting, value in shape.configs if setting not in OF_THE_SOURCE}
    return {
        **({"topicName": shape.topic} if name != shape.topic else {}),
        "partitions": shape.partitions,
        **({"replicas": shape.replication_factor} if shape.replication_factor > 0 else {}),
        **({"config": configs} if configs else {}),
    }
