"""What brokers answer, as targets: every API that offsite reads but those that carry data.

Nothing vouches for a broker's answer but TCP, TLS and, inside of Fetch, the CRC32C of batches: other values are legal
here, everything else is not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from offsite.kafka import coordinators, producer
from offsite.kafka.config import BrokerAddress
from offsite.kafka.net import connection as connections
from offsite.kafka.net import sasl
from offsite.kafka.net.broker_socket import ReadAhead, ReceiveBuffer
from offsite.kafka.net.connection import Connection
from offsite.kafka.producer import Producer
from offsite.kafka.protocol import metadata
from offsite.kafka.protocol.cluster_settings import (
    alter_quotas_request,
    create_acls_request,
    describe_acls_request,
    describe_quotas_request,
    describe_scram_users_request,
)
from offsite.kafka.protocol.configs import alter_configs_request, topic_configs_request
from offsite.kafka.protocol.groups import (
    commit_offsets_request,
    delete_offsets_request,
    fetch_offsets_request,
    list_groups_request,
)
from offsite.kafka.protocol.logs import (
    delete_records_request,
    epoch_ends_request,
    list_offsets_request,
    log_dirs_request,
)
from offsite.kafka.protocol.metadata import metadata_request
from offsite.kafka.protocol.request import Request
from offsite.kafka.transaction_requests import (
    add_partition_request,
    describe_producers_request,
    describe_transaction_request,
    end_request,
    init_producer_request,
)
from offsite.log.group_offsets import CommittedOffset, GroupOffsets, TopicOffsets
from offsite.log.range import TopicPartition
from tests.fuzz.kafka_answers import Values, answer
from tests.fuzz.reading import Reading
from tests.fuzz.target import Files, Target, Trust

HERE = TopicPartition(topic="orders", partition=0)
GROUP = GroupOffsets(
    group="g", kind="classic", state="Empty", topics=(TopicOffsets.of("orders", [CommittedOffset(0, 5)]),)
)
PRODUCER = Producer(producer_id=7, epoch=1, transactional_id="t")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One API: what is asked, and what Kafka's schema calls the answer."""

    request: Callable[[], Request[Any]]
    schema: str
    values: Values = field(default_factory=dict)
    items: int = 2


def _listed(version: int) -> Asked:
    return Asked(request=lambda: list_groups_request(version), schema="ListGroupsResponse")


APIS: dict[str, Asked] = {
    "api-versions": Asked(request=connections._api_versions, schema="ApiVersionsResponse"),
    "metadata-8": Asked(request=lambda: metadata_request(None, version=8), schema="MetadataResponse"),
    "metadata-10": Asked(request=lambda: metadata_request(None, version=10), schema="MetadataResponse"),
    "list-offsets": Asked(request=lambda: list_offsets_request([HERE], -1), schema="ListOffsetsResponse"),
    "epoch-ends": Asked(
        request=lambda: epoch_ends_request({HERE: 1}, led_in={HERE: 1}), schema="OffsetForLeaderEpochResponse"
    ),
    "list-groups-3": _listed(3),
    "list-groups-5": _listed(5),
    "offset-fetch-7": Asked(
        request=lambda: fetch_offsets_request(["g"], stable=True, version=7), schema="OffsetFetchResponse"
    ),
    "offset-fetch-8": Asked(
        request=lambda: fetch_offsets_request(["g"], stable=True, version=8),
        schema="OffsetFetchResponse",
        values={"Metadata": ["", "m"]},
    ),
    "offset-commit": Asked(request=lambda: commit_offsets_request(GROUP), schema="OffsetCommitResponse"),
    "offset-delete": Asked(request=lambda: delete_offsets_request(GROUP), schema="OffsetDeleteResponse"),
    "find-coordinator-3": Asked(
        request=lambda: coordinators.find_coordinator_request("g", kind=0), schema="FindCoordinatorResponse"
    ),
    "find-coordinator-4": Asked(
        request=lambda: coordinators.find_coordinators_request(["g"], kind=0), schema="FindCoordinatorResponse"
    ),
    "init-producer-id": Asked(request=producer._init_producer_id, schema="InitProducerIdResponse"),
    "init-transaction": Asked(
        request=lambda: init_producer_request("t", timeout_ms=1), schema="InitProducerIdResponse"
    ),
    "add-partition": Asked(request=lambda: add_partition_request(PRODUCER, HERE), schema="AddPartitionsToTxnResponse"),
    "end-transaction": Asked(request=lambda: end_request(PRODUCER, committed=True), schema="EndTxnResponse"),
    "describe-transactions": Asked(
        request=lambda: describe_transaction_request("t"), schema="DescribeTransactionsResponse", items=1
    ),
    "describe-producers": Asked(
        request=lambda: describe_producers_request(HERE), schema="DescribeProducersResponse", items=1
    ),
    "describe-acls": Asked(request=describe_acls_request, schema="DescribeAclsResponse"),
    "create-acls": Asked(request=lambda: create_acls_request([]), schema="CreateAclsResponse"),
    "describe-configs": Asked(request=lambda: topic_configs_request(["orders"]), schema="DescribeConfigsResponse"),
    "alter-configs": Asked(
        request=lambda: alter_configs_request({"orders": {}}), schema="IncrementalAlterConfigsResponse"
    ),
    "log-dirs": Asked(request=lambda: log_dirs_request([HERE]), schema="DescribeLogDirsResponse"),
    "delete-records": Asked(
        request=lambda: delete_records_request({HERE: 1}, timeout_ms=1), schema="DeleteRecordsResponse"
    ),
    "create-topics": Asked(
        request=lambda: metadata.create_topics_request([], timeout_ms=1), schema="CreateTopicsResponse"
    ),
    "delete-topics": Asked(
        request=lambda: metadata.delete_topics_request(["orders"], timeout_ms=1), schema="DeleteTopicsResponse"
    ),
    "describe-quotas": Asked(request=describe_quotas_request, schema="DescribeClientQuotasResponse"),
    "alter-quotas": Asked(request=lambda: alter_quotas_request([]), schema="AlterClientQuotasResponse"),
    "scram-users": Asked(request=describe_scram_users_request, schema="DescribeUserScramCredentialsResponse"),
    "sasl-handshake": Asked(request=lambda: sasl._handshake("PLAIN"), schema="SaslHandshakeResponse"),
    "sasl-authenticate": Asked(request=lambda: sasl._round(b""), schema="SaslAuthenticateResponse"),
}


def api(name: str) -> Target:
    asked = APIS[name]
    request = asked.request()
    body = answer(asked.schema, request.version, asked.values, items=asked.items)
    header = b"\0" if request.flexible else b""

    def read(files: Files) -> Reading:
        found = Reading()
        with found.part():
            found.data["answer"] = unopened([])._parse(asked.request(), memoryview(files["answer"]))
        return found

    return Target(files={"answer": header + body}, read=read, trust=Trust.WIRE)


class _Socket:
    """Gives what it has, then hangs up."""

    def __init__(self, parts: list[bytes]) -> None:
        self._left = b"".join(parts)

    def recv_into(self, view: memoryview) -> int:
        count = min(len(view), len(self._left))
        view[:count], self._left = self._left[:count], self._left[count:]
        return count

    def settimeout(self, _timeout_s: float) -> None: ...

    def close(self) -> None: ...


def unopened(parts: list[bytes]) -> Connection:
    """One that was never opened."""
    made: Any = Connection.__new__(Connection)
    made.address, made.usable, made._welcome = BrokerAddress(host="h", port=1), True, True
    made._sock, made._timeout_s, made._set_s = _Socket(parts), 5.0, 5.0
    made._unanswered, made._buffer, made._versions = deque(), ReceiveBuffer(1024), {}
    made._client_id, made._correlation, made._gathers = "c", 0, False
    made._is_greeted, made._ahead, made._head = True, ReadAhead(), memoryview(bytearray(8))
    return made  # type: ignore[no-any-return]
