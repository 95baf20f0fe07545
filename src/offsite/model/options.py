"""Options and choices of a person, declared once: for the commands, for Python and for the API.

A `TypedDict` holds name and type of every option, for type checkers (`**words: Unpack[…]`). Texts for people are an
`Option` in the same annotation: `at: Annotated[str | None, Option("…")]`. The command line makes its options from both,
and adds nothing (`cli/options.py`).

`DEFAULT` of a choice applies unless another member is given. A member is the text that people write, that restores are
remembered by and that `-o json` prints: it is compared with text of earlier versions, and never changes. The `Literal`
beside a choice lists the same texts for type checkers, so that a Python program may write the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import Literal, NamedTuple, TypeVar, cast, get_type_hints

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


class SchemaIdsChoice(StrEnum):
    """What a restore does where ids of schemas in records mean something else at the registry of the target: register
    the schemas under their ids, or under other ids and change the records, or leave everything. Auto: the first of
    these that is possible, if a registry is named."""

    AUTO = "auto"
    KEEP = "keep"
    REWRITE = "rewrite"
    LEAVE = "leave"
    DEFAULT = AUTO


SchemaIdsText = Literal["auto", "keep", "rewrite", "leave"]


class SchemaIdsWay(StrEnum):
    """What a restore does with ids of schemas, decided: nothing, because they mean the `same` at the target, or as the
    choices say."""

    SAME = "same"
    KEEP = "keep"
    REWRITE = "rewrite"
    LEAVE = "leave"


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


class StrimziVersion(StrEnum):
    """Versions of Strimzi's resources: `v1` since 0.49, and alone since 1.0."""

    V1 = "v1"
    V1BETA2 = "v1beta2"
    DEFAULT = V1


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


WordsT = TypeVar("WordsT", bound=Mapping[str, object])


class Option(NamedTuple):
    """The help of an option, in full sentences, and the default for a missing option or None.

    A choice has a member as default. `shown_default` explains None in words, where the help does not.
    """

    help: str
    default: object = None
    shown_default: str = ""


class DeclaredOption(NamedTuple):
    """The `Option` with name and type of the keyword."""

    name: str
    type: object
    option: Option


@cache
def declared_options(words: type) -> tuple[DeclaredOption, ...]:
    """Return the options of a `TypedDict`, options of base classes first. Every key must have an `Option`."""
    hints = get_type_hints(words, include_extras=True).items()
    return tuple(DeclaredOption(name=name, type=hint.__origin__, option=hint.__metadata__[0]) for name, hint in hints)


def with_defaults(words: type[WordsT], arguments: Mapping[str, object]) -> WordsT:
    """Return `arguments`, with the default for every missing option or None."""
    defaults = {declaration.name: declaration.option.default for declaration in declared_options(words)}
    return cast("WordsT", defaults | {name: value for name, value in arguments.items() if value is not None})
