"""The file of `--config`: the repositories of one coordinator, each with the words of the command's options.

The file holds no secret: it names the files that do. An error names the key and its line.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from offsite.checkpoint.options import ZeebeWords, parse_zeebe
from offsite.engine.settings import SparkChoice
from offsite.model.errors import BadOption, OffsiteError
from offsite.model.machine import can_others_write
from offsite.model.names import suggest_name
from offsite.model.units import parse_duration_s
from offsite.model.untrusted.place import parse_place
from offsite.model.untrusted.strict_yaml import TEXT_MAX_BYTES, BadYaml, YamlDocument, YamlPath, parse_yaml
from offsite.model.untrusted.text import NotUtf8, decode_text, shorten
from offsite.serve.address import NAME
from offsite.serve.site import SOURCE, ClusterAddress, SiteSettings

REPOSITORIES_MAX = 100
"""Each has threads of its own."""
LEAST_INTERVAL_S = 1.0
_HINT = "see: docs/how-to/several-repositories.md"
_REPOSITORIES = "repositories"

ParsedT = TypeVar("ParsedT")


def _listed(value: object) -> object:
    """One text counts as a list of one."""
    return [value] if isinstance(value, str) else value


_Text = Annotated[str, Field(min_length=1, max_length=1_000)]
_Texts = Annotated[list[_Text], Field(max_length=100), BeforeValidator(_listed)]


class RepositoryEntry(BaseModel):
    """A repository in the file. The keys are the names of the options."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, alias_generator=lambda name: name.replace("_", "-")
    )

    repo: _Text
    backup: _Text | None = None
    bootstrap: _Text | None = None
    kafka_config: _Text | None = None
    target: _Texts = []
    records: _Texts = []
    zeebe: _Texts = []
    zeebe_token_file: _Text | None = None
    metastore: _Text | None = None
    read_only: bool = False
    interval: _Text = "30s"


_KEYS = tuple(field.alias or name for name, field in RepositoryEntry.model_fields.items())


def read_config(path: Path, *, spark: SparkChoice, read_only: bool = False) -> dict[str, SiteSettings]:
    """Return the settings of each repository of the file, by name. `read_only`: all are. Raises `BadOption`."""
    try:
        with path.open("rb") as file:
            is_foreign = can_others_write(os.fstat(file.fileno()))
            text = decode_text(file.read(TEXT_MAX_BYTES + 1))
        documents = parse_yaml(text)
    except OSError as error:
        raise BadOption(f"{path} cannot be read: {error.strerror}", hint=_HINT) from error
    except (NotUtf8, BadYaml) as error:
        raise BadOption(f"{path} cannot be used: {error}", hint=_HINT) from None
    if is_foreign:
        raise BadOption(
            f"{path} can be written by other users, who could have credentials sent to a cluster of theirs",
            hint="become its owner, and: chmod go-w FILE",
        )
    if len(documents) != 1:
        raise BadOption(f"{path} holds {len(documents)} documents, and must hold one", hint=_HINT)
    reader = _Reader(str(path), documents[0])
    return {name: reader.settings(name, spark=spark, read_only=read_only) for name in reader.names()}


class _Reader:
    """Reads one file. `source`: its name in errors."""

    def __init__(self, source: str, document: YamlDocument) -> None:
        self._source, self._document = source, document
        self._entries: Mapping[object, object] = {}

    def names(self) -> Sequence[str]:
        """Return the names of the repositories, in the order of the file."""
        whole = self._document.value
        if not isinstance(whole, Mapping) or not isinstance(entries := whole.get(_REPOSITORIES), Mapping):
            raise self._bad((_REPOSITORIES,), "the file must hold a mapping of names to repositories")
        for key in whole:
            if key != _REPOSITORIES:
                raise self._bad((str(key),), "there is no such key", hint=suggest_name(str(key), (_REPOSITORIES,)))
        if not 0 < len(entries) <= REPOSITORIES_MAX:
            raise self._bad((_REPOSITORIES,), f"it holds {len(entries)} repositories, not 1 to {REPOSITORIES_MAX}")
        for name in entries:
            if not isinstance(name, str) or not NAME.fullmatch(name):
                hint = "use letters, digits, '_' and '-', at most 63; put a name of digits in quotes"
                raise self._bad((_REPOSITORIES, str(name)), "this is no name of a repository", hint=hint)
        self._entries = entries
        return [str(name) for name in entries]

    def settings(self, name: str, *, spark: SparkChoice, read_only: bool) -> SiteSettings:
        entry, here = self._entry(name), (_REPOSITORIES, name)
        source = ClusterAddress(bootstrap=entry.bootstrap, kafka_config=_path(entry.kafka_config))
        targets = self._checked((*here, "target"), lambda: parse_targets(entry.target))
        zeebe = ZeebeWords(zeebe=entry.zeebe or None, zeebe_token_file=entry.zeebe_token_file)
        self._checked((*here, "repo"), lambda: parse_place(entry.repo))
        self._checked((*here, "records"), lambda: [parse_place(place) for place in entry.records])
        self._checked((*here, "zeebe"), lambda: parse_zeebe(zeebe))
        return SiteSettings(
            repo=entry.repo,
            backup=entry.backup,
            addresses={**({SOURCE: source} if source.is_named else {}), **targets},
            records=tuple(entry.records),
            spark=spark,
            read_only=entry.read_only or read_only,
            clusters=zeebe,
            metastore=_path(entry.metastore),
            name=name,
            interval_s=self._checked((*here, "interval"), lambda: parse_interval_s(entry.interval)),
        )

    def _entry(self, name: str) -> RepositoryEntry:
        try:
            return RepositoryEntry.model_validate(self._entries[name])
        except ValidationError as error:
            detail = error.errors(include_url=False, include_context=False, include_input=False)[0]
            path, kind = (_REPOSITORIES, name, *detail["loc"]), detail["type"]
            if kind == "extra_forbidden":
                raise self._bad(path, "there is no such key", hint=suggest_name(str(path[-1]), _KEYS)) from None
            said = {"missing": "this key is required", "model_type": "a repository is a mapping of keys to values"}
            raise self._bad(path, said.get(kind, shorten(detail["msg"]))) from None

    def _checked(self, path: YamlPath, parse: Callable[[], ParsedT]) -> ParsedT:
        try:
            return parse()
        except OffsiteError as error:
            raise self._bad(path, error.message, hint=error.hint) from error

    def _bad(self, path: YamlPath, problem: str, *, hint: str = _HINT) -> BadOption:
        where = ".".join(shorten(str(part)) for part in path)
        return BadOption(f"{self._source}, line {self._document.line_of(path)}: {where}: {problem}", hint=hint)


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def parse_targets(texts: Sequence[str]) -> dict[str, ClusterAddress]:
    """Return the clusters by name. Raises `BadOption`, also for a name that comes twice."""
    targets = [parse_target(text) for text in texts]
    for name, count in Counter(name for name, _ in targets).items():
        if count > 1:
            raise BadOption(f"{count} clusters are named {name[:60]!r}", hint="give each its own name")
    return dict(targets)


def parse_target(text: str) -> tuple[str, ClusterAddress]:
    """Return the name and the address in `NAME=HOST:PORT[,FILE]`. Raises `BadOption`."""
    name, _, address = text.partition("=")
    bootstrap, _, file = address.partition(",") if address.count(",") == 1 and "/" in address else (address, "", "")
    if not name or not bootstrap or name == SOURCE:
        raise BadOption(f"{text[:100]!r} is not NAME=HOST:PORT[,FILE]", hint="write it as dr=broker:9092")
    return name, ClusterAddress(bootstrap=bootstrap, kafka_config=Path(file) if file else None)


def parse_interval_s(text: str) -> float:
    """Return the pause between two looks at a source. Raises `BadOption`."""
    interval_s = parse_duration_s(text)
    if interval_s < LEAST_INTERVAL_S:
        raise BadOption(
            f"--interval {text} is shorter than a second",
            hint="brokers would be asked all the time; try --interval 30s",
        )
    return interval_s
