"""Choices of a person, declared once: for the commands, for Python and for the services.

`DEFAULT` of a choice applies unless another member is given. A member is the text that people write, that restores are
remembered by and that `-o json` prints: it is compared with text of earlier versions, and never changes. The `Literal`
beside a choice lists the same texts for type checkers, so that a Python program may write the text.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeVar

from offsite.model.errors import BadOption

ChoiceT = TypeVar("ChoiceT", bound=StrEnum)


class Isolation(StrEnum):
    """Which records of transactions count, as in a consumer's `isolation.level`: records of committed transactions, or
    all."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"
    DEFAULT = READ_COMMITTED


IsolationText = Literal["read_committed", "read_uncommitted"]


class OffsetsMode(StrEnum):
    """The offsets of restored records: the source's offsets, new offsets with a map, or a choice topic by topic,
    whichever is done soon."""

    AUTO = "auto"
    PRESERVE = "preserve"
    TRANSLATE = "translate"
    DEFAULT = AUTO


OffsetsText = Literal["auto", "preserve", "translate"]


class CutChoice(StrEnum):
    """Where a restore of a commit ends. Consistent: at the commit's cut, without incomplete transactions and everything
    that depends on them. As copied: at the end of every copied partition. Auto: at the cut wherever the commit has a
    cut."""

    AUTO = "auto"
    CONSISTENT = "consistent"
    AS_COPIED = "as-copied"
    DEFAULT = AUTO


CutText = Literal["auto", "consistent", "as-copied"]


class StampForm(StrEnum):
    """How applications that stamp records learn of a checkpoint: by markers in their topics, or by the control topic
    alone, with an acknowledgement of every application."""

    MARKERS = "markers"
    ACKS = "acks"


class RetentionMode(StrEnum):
    """What happens to a retention that would delete restored records at once."""

    HOLD = "hold"
    OVERRIDE = "override"
    DEFAULT = HOLD


RetentionText = Literal["hold", "override"]


class Keyless(StrEnum):
    """What happens to records without a key in a repartitioned topic."""

    REFUSE = "refuse"
    IN_TURN = "in-turn"
    DEFAULT = REFUSE


KeylessText = Literal["refuse", "in-turn"]


class MissingTopics(StrEnum):
    """What to do when a literally named topic does not exist."""

    FAIL = "fail"
    WARN = "warn"
    DEFAULT = FAIL


MissingTopicsText = Literal["fail", "warn"]


class CompressionChoice(StrEnum):
    """How segment objects are stored. `auto` decides per object, by the data that producers left uncompressed."""

    AUTO = "auto"
    NONE = "none"
    ZSTD = "zstd"
    DEFAULT = AUTO


CompressionText = Literal["auto", "none", "zstd"]


class SecretsChoice(StrEnum):
    """How executors of a Spark cluster get passwords, keys and tokens of Kafka: in tasks, where Spark encrypts the
    network; out of a file on every executor; or in tasks readable on the network."""

    ENCRYPTED = "encrypted"
    ON_EXECUTORS = "on-executors"
    IN_CLEAR = "in-clear"
    DEFAULT = ENCRYPTED


SecretsText = Literal["encrypted", "on-executors", "in-clear"]


class EmptyAs(StrEnum):
    """The meaning of an empty key or value in an archive, where the format does not tell. The default is the
    format's."""

    NULL = "null"
    EMPTY = "empty"


def parse_choice(kind: type[ChoiceT], text: str) -> ChoiceT:
    """Return the member of `kind` with the given text. Raises `BadOption`."""
    try:
        return kind(text)
    except ValueError as error:
        raise BadOption(f"{text!r} is not one of {', '.join(kind)}", hint="use one of these values") from error
