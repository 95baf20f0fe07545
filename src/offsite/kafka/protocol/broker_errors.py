"""Error codes of brokers → offsite's error leaves. Source: the protocol guide's table of error codes."""

from __future__ import annotations

from offsite.model.errors import (
    BadOption,
    DamagedBatch,
    KafkaNotAuthorized,
    KafkaProtocolError,
    KafkaTimeout,
    LeaderUnavailable,
    NoAuthorizer,
    NoSuchTopic,
    OffsiteError,
    TargetMismatch,
    TopicReplaced,
    TransactionLost,
)

UNKNOWN_SERVER_ERROR = -1
NONE = 0
OFFSET_OUT_OF_RANGE = 1
CORRUPT_MESSAGE = 2
UNKNOWN_TOPIC_OR_PARTITION = 3
LEADER_NOT_AVAILABLE = 5
NOT_LEADER_OR_FOLLOWER = 6
REQUEST_TIMED_OUT = 7
TOPIC_ALREADY_EXISTS = 36
TOPIC_AUTHORIZATION_FAILED = 29
GROUP_AUTHORIZATION_FAILED = 30
INVALID_CONFIG = 40
POLICY_VIOLATION = 44
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
DUPLICATE_SEQUENCE_NUMBER = 46
INVALID_PRODUCER_EPOCH = 47
INVALID_TRANSACTION_TIMEOUT = 50
CONCURRENT_TRANSACTIONS = 51
TRANSACTION_COORDINATOR_FENCED = 52
SECURITY_DISABLED = 54
GROUP_ID_NOT_FOUND = 69
PRODUCER_FENCED = 90
UNKNOWN_TOPIC_ID = 100
TRANSACTIONAL_ID_NOT_FOUND = 105

_NAMES = {
    UNKNOWN_SERVER_ERROR: "UNKNOWN_SERVER_ERROR",
    OFFSET_OUT_OF_RANGE: "OFFSET_OUT_OF_RANGE",
    CORRUPT_MESSAGE: "CORRUPT_MESSAGE",
    UNKNOWN_TOPIC_OR_PARTITION: "UNKNOWN_TOPIC_OR_PARTITION",
    LEADER_NOT_AVAILABLE: "LEADER_NOT_AVAILABLE",
    NOT_LEADER_OR_FOLLOWER: "NOT_LEADER_OR_FOLLOWER",
    REQUEST_TIMED_OUT: "REQUEST_TIMED_OUT",
    8: "BROKER_NOT_AVAILABLE",
    9: "REPLICA_NOT_AVAILABLE",
    10: "MESSAGE_TOO_LARGE",
    12: "OFFSET_METADATA_TOO_LARGE",
    13: "NETWORK_EXCEPTION",
    14: "COORDINATOR_LOAD_IN_PROGRESS",
    15: "COORDINATOR_NOT_AVAILABLE",
    16: "NOT_COORDINATOR",
    17: "INVALID_TOPIC_EXCEPTION",
    18: "RECORD_LIST_TOO_LARGE",
    19: "NOT_ENOUGH_REPLICAS",
    20: "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    22: "ILLEGAL_GENERATION",
    24: "INVALID_GROUP_ID",
    25: "UNKNOWN_MEMBER_ID",
    27: "REBALANCE_IN_PROGRESS",
    28: "INVALID_COMMIT_OFFSET_SIZE",
    TOPIC_AUTHORIZATION_FAILED: "TOPIC_AUTHORIZATION_FAILED",
    GROUP_AUTHORIZATION_FAILED: "GROUP_AUTHORIZATION_FAILED",
    31: "CLUSTER_AUTHORIZATION_FAILED",
    32: "INVALID_TIMESTAMP",
    33: "UNSUPPORTED_SASL_MECHANISM",
    34: "ILLEGAL_SASL_STATE",
    35: "UNSUPPORTED_VERSION",
    TOPIC_ALREADY_EXISTS: "TOPIC_ALREADY_EXISTS",
    37: "INVALID_PARTITIONS",
    38: "INVALID_REPLICATION_FACTOR",
    INVALID_CONFIG: "INVALID_CONFIG",
    41: "NOT_CONTROLLER",
    42: "INVALID_REQUEST",
    POLICY_VIOLATION: "POLICY_VIOLATION",
    OUT_OF_ORDER_SEQUENCE_NUMBER: "OUT_OF_ORDER_SEQUENCE_NUMBER",
    DUPLICATE_SEQUENCE_NUMBER: "DUPLICATE_SEQUENCE_NUMBER",
    INVALID_PRODUCER_EPOCH: "INVALID_PRODUCER_EPOCH",
    48: "INVALID_TXN_STATE",
    49: "INVALID_PRODUCER_ID_MAPPING",
    INVALID_TRANSACTION_TIMEOUT: "INVALID_TRANSACTION_TIMEOUT",
    CONCURRENT_TRANSACTIONS: "CONCURRENT_TRANSACTIONS",
    TRANSACTION_COORDINATOR_FENCED: "TRANSACTION_COORDINATOR_FENCED",
    53: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    SECURITY_DISABLED: "SECURITY_DISABLED",
    56: "KAFKA_STORAGE_ERROR",
    58: "SASL_AUTHENTICATION_FAILED",
    59: "UNKNOWN_PRODUCER_ID",
    68: "NON_EMPTY_GROUP",
    GROUP_ID_NOT_FOUND: "GROUP_ID_NOT_FOUND",
    73: "TOPIC_DELETION_DISABLED",
    74: "FENCED_LEADER_EPOCH",
    75: "UNKNOWN_LEADER_EPOCH",
    78: "OFFSET_NOT_AVAILABLE",
    86: "GROUP_SUBSCRIBED_TO_TOPIC",
    87: "INVALID_RECORD",
    88: "UNSTABLE_OFFSET_COMMIT",
    89: "THROTTLING_QUOTA_EXCEEDED",
    PRODUCER_FENCED: "PRODUCER_FENCED",
    UNKNOWN_TOPIC_ID: "UNKNOWN_TOPIC_ID",
    103: "INCONSISTENT_TOPIC_ID",
    TRANSACTIONAL_ID_NOT_FOUND: "TRANSACTIONAL_ID_NOT_FOUND",
    113: "STALE_MEMBER_EPOCH",
}

# Another broker, or the same broker a little later, may answer: ask for the metadata again.
_LEADER_MOVES = frozenset({5, 6, 8, 9, 13, 19, 20, 56, 74, 75, 78})
# The same broker may answer a little later.
_TRY_AGAIN = frozenset({7, 14, 15, 16, 41, 51, 89})
_NOT_AUTHORIZED = frozenset({TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED, 31, 53})
_TARGET_LIMITS = frozenset({10, 18, 32, 87})
# Another producer took over the transactional id, or the transaction took longer than it may.
_TRANSACTION_LOST = frozenset({INVALID_PRODUCER_EPOCH, 48, 49, TRANSACTION_COORDINATOR_FENCED, PRODUCER_FENCED})
_BAD_OPTIONS = frozenset({17, 36, 37, 38, 40, 44, 73})


def error_name(code: int) -> str:
    return _NAMES.get(code, f"error code {code}")


def broker_error(code: int, context: str, *, detail: str = "") -> OffsiteError:
    """Return the error for a broker's `code` met while doing `context` (words, without secrets). `detail`: the broker's
    message.

    `LeaderUnavailable` and `KafkaTimeout` are worth a retry with fresh metadata; every other error is final.
    """
    message = f"{context}: {error_name(code)}" + (f" ({detail})" if detail else "")
    if code in _LEADER_MOVES:
        return LeaderUnavailable(message, hint="check that the partition has a leader and enough in-sync replicas")
    if code in _TRY_AGAIN:
        return KafkaTimeout(message, hint="the broker is busy or starting: try again")
    if code in _NOT_AUTHORIZED:
        return KafkaNotAuthorized(message, hint="grant the principal the missing ACL")
    if code in _TRANSACTION_LOST:
        return TransactionLost(message, hint="run the same command again")
    if code == SECURITY_DISABLED:
        return NoAuthorizer(message, hint="without an authorizer (authorizer.class.name) brokers keep no ACLs")
    return _final_error(code, message)


def _final_error(code: int, message: str) -> OffsiteError:
    if code in _TARGET_LIMITS:
        return TargetMismatch(message, hint="compare max.message.bytes and message.timestamp.* of the target topic")
    if code in _BAD_OPTIONS:
        return BadOption(message)
    if code == UNKNOWN_TOPIC_OR_PARTITION:
        return NoSuchTopic(message, hint="the topic was deleted, or the principal may not describe it")
    if code in {UNKNOWN_TOPIC_ID, 103}:
        return TopicReplaced(message, hint="the topic was deleted or created again: plan again")
    if code == CORRUPT_MESSAGE:
        return DamagedBatch(message, hint="the broker reports that its own log or the received batch is damaged")
    return KafkaProtocolError(message)
