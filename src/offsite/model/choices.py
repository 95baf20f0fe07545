"""What a person chooses from, declared once: for the commands, for Python and for what carries it out.

`DEFAULT` of each is what counts unless told. A member is the text that people write, that restores are remembered by
and that `-o json` prints: it is compared with text of earlier versions, and never changes. The `Literal` beside a
choice is the same for type checkers, so that a Python program may write the text.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeVar

from offsite.model.errors import BadOption

ChoiceT = TypeVar("ChoiceT", bound=StrEnum)


class Isolation(StrEnum):
    """Which records of transactions count, as in a consumer's `isolation.level`: those of committed ones, or all."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"
    DEFAULT = READ_COMMITTED


IsolationText = Literal["read_committed", "read_uncommitted"]


class OffsetsMode(StrEnum):
    """The offsets at which records come back: those of the source, new ones with a map, or the one or the other topic
    by topic, whichever is done soon."""

    AUTO = "auto"
    PRESERVE = "preserve"
    TRANSLATE = "translate"
    DEFAULT = AUTO


OffsetsText = Literal["auto", "preserve", "translate"]


class CutChoice(StrEnum):
    """Where a restore of a commit ends: at its consistent cut, which leaves out transactions that were not whole and
    what depends on them; where each partition was copied to; or at the cut wherever the commit has one."""

    AUTO = "auto"
    CONSISTENT = "consistent"
    AS_COPIED = "as-copied"
    DEFAULT = AUTO


CutText = Literal["auto", "consistent", "as-copied"]


class StampForm(StrEnum):
    """How applications that stamp their records hear of a checkpoint: by markers in their topics, or by the control
    topic alone, where each of them acknowledges it."""

    MARKERS = "markers"
    ACKS = "acks"


class RetentionMode(StrEnum):
    """What becomes of a retention that would delete restored records at once."""

    HOLD = "hold"
    OVERRIDE = "override"
    DEFAULT = HOLD


RetentionText = Literal["hold", "override"]


class Keyless(StrEnum):
    """What becomes of records without a key in a topic that is repartitioned."""

    REFUSE = "refuse"
    IN_TURN = "in-turn"
    DEFAULT = REFUSE


KeylessText = Literal["refuse", "in-turn"]


class MissingTopics(StrEnum):
    """What to do when a topic named literally does not exist."""

    FAIL = "fail"
    WARN = "warn"
    DEFAULT = FAIL


MissingTopicsText = Literal["fail", "warn"]


class CompressionChoice(StrEnum):
    """How objects of segments are stored. `auto` decides for each by what producers left uncompressed."""

    AUTO = "auto"
    NONE = "none"
    ZSTD = "zstd"
    DEFAULT = AUTO


CompressionText = Literal["auto", "none", "zstd"]


class SecretsChoice(StrEnum):
    """How the executors of a Spark cluster come by passwords, keys and tokens of Kafka: in tasks, where Spark encrypts
    its network; out of a file that each of them has; or in tasks that whoever is on the way can read."""

    ENCRYPTED = "encrypted"
    ON_EXECUTORS = "on-executors"
    IN_CLEAR = "in-clear"
    DEFAULT = ENCRYPTED


SecretsText = Literal["encrypted", "on-executors", "in-clear"]


class EmptyAs(StrEnum):
    """What an empty key or value in an archive was, where its format does not tell. The default is the format's."""

    NULL = "null"
    EMPTY = "empty"


def chosen(kind: type[ChoiceT], text: str) -> ChoiceT:
    """The member of `kind` that is written so. Raises `BadOption`."""
    try:
        return kind(text)
    except ValueError as error:
        raise BadOption(f"{text!r} is none of {', '.join(kind)}", hint="write one of these") from error
