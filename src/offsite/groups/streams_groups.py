"""Warns of groups of Kafka Streams with their own protocol (KIP-1071) before their offsets are set.

Offsets that are committed for a group that does not exist make a classic group of that name. What an application of
`group.protocol=streams` finds then depends on the release of the target's brokers, and so does the way on. Source:
`GroupMetadataManager` of these releases, and decision 0073.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from offsite.kafka.groups import GroupClient, StreamsSupport
from offsite.log.group_offsets import GroupOffsets
from offsite.model.names import named

STREAMS = "streams"
_NAMED_MAX = 10
_CONSEQUENCES: Mapping[StreamsSupport, str] = {
    StreamsSupport.ABSENT: (
        "brokers of the target have no such groups (Kafka 4.1 as a preview, 4.2 by default), and the offsets make "
        "classic groups: start the applications there with group.protocol=classic"
    ),
    StreamsSupport.REFUSES: (
        "the offsets make classic groups, and brokers of Kafka 4.1 then refuse an application with "
        'group.protocol=streams ("not a streams group"): start it with group.protocol=classic, or upgrade the target '
        "to Kafka 4.2.1 or later before you start it"
    ),
    StreamsSupport.MAY_FAIL: (
        "the offsets make classic groups, which brokers convert when the applications start. Brokers of Kafka 4.2.0, "
        "once __consumer_offsets was compacted, may then fail to load these groups, and all groups beside them, after "
        "a restart (KAFKA-20254): upgrade the target to 4.2.1 or later first, if it is not yet"
    ),
}
"""Nothing is to be said of brokers that convert the group for good."""
_RELEASES: Mapping[StreamsSupport, str] = {
    StreamsSupport.ABSENT: "without streams groups",
    StreamsSupport.REFUSES: "Kafka 4.1",
    StreamsSupport.MAY_FAIL: "Kafka 4.2",
    StreamsSupport.CONVERTS: "Kafka 4.3 or later",
}


def streams_warnings(groups: Iterable[GroupOffsets], client: GroupClient) -> tuple[str, ...]:
    """Return what becomes of the streams groups among `groups` on the cluster of `client`, in words. Groups that are
    streams groups there already keep their kind, and need no word. Asks nothing without streams groups; raises the
    errors of `client`."""
    names = sorted(group.group for group in groups if group.kind == STREAMS)
    return tuple(_warnings(names, client)) if names else ()


def _warnings(names: list[str], client: GroupClient) -> Iterator[str]:
    kept = {listed.group for listed in client.list() if listed.kind == STREAMS}
    changed = [name for name in names if name not in kept]
    brokers = client.streams_support() if changed else {}
    least = min(brokers.values(), key=list(StreamsSupport).index, default=StreamsSupport.CONVERTS)
    if (consequence := _CONSEQUENCES.get(least)) is not None:
        yield f"streams groups {named(changed, most=_NAMED_MAX)}: {_several(brokers)}{consequence}"


def _several(brokers: Mapping[int, StreamsSupport]) -> str:
    """The brokers by release, where they have several; else empty."""
    by_release = {
        release: [str(node_id) for node_id, support in sorted(brokers.items()) if support is of]
        for of, release in _RELEASES.items()
    }
    texts = [f"{release}: {named(ids, most=_NAMED_MAX)}" for release, ids in by_release.items() if ids]
    if len(texts) <= 1:
        return ""
    return f"brokers of several releases may coordinate them ({'; '.join(texts)}), and the oldest counts: "
