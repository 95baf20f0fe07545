"""Which Spark runs the jobs, and with what settings: as a person chose it, one frozen value for commands and
programs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from offsite.model.choices import SecretsChoice
from offsite.model.errors import BadOption
from offsite.model.journal import warned
from offsite.model.untrusted.file_access import exposure
from offsite.model.untrusted.properties import parse_properties
from offsite.model.untrusted.text import NotUtf8, decode_text
from offsite.spark.settings import secrets_apart

VARIABLES = frozenset(f"OFFSITE_SPARK_{each}" for each in ("MASTER", "CONF", "PROPERTIES", "ARCHIVE")) | {
    "OFFSITE_SECRETS"
}
"""Of the environment: by which commands are told all that is chosen here."""

_PREFIX = "spark."
_NAME = re.compile(r"spark\.[^\s=\0]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkChoice:
    """`master`: a Spark master URL, `SUBMITTED`, or None for this machine's cores. `conf`: Spark settings, which must
    hold no secret of Kafka or of a store. `archive`: a file or URL made by `offsite spark pack`, for executors without
    offsite. `secrets`: how executors come by Kafka's."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    archive: str | None = None
    secrets: SecretsChoice = SecretsChoice.DEFAULT

    def __post_init__(self) -> None:
        """A master among the settings, as in most files of them, is the master unless one was named besides: what runs
        where is decided by it, and whether others can read what is sent."""
        conf = dict(self.conf)
        named = conf.pop("spark.master", None)
        object.__setattr__(self, "conf", conf)
        object.__setattr__(self, "master", self.master or named)

    def environment(self) -> Mapping[str, str]:
        """The variables by which another command chooses the same, where it has none of `VARIABLES` beside. Raises
        `BadOption` for settings that are not a line each."""
        given = {
            "OFFSITE_SPARK_MASTER": self.master,
            "OFFSITE_SPARK_CONF": lines_of(self.conf),
            "OFFSITE_SPARK_ARCHIVE": self.archive,
            "OFFSITE_SECRETS": str(self.secrets),
        }
        return {name: value for name, value in given.items() if value}


def settings_of(properties: Path | None, pairs: Sequence[str]) -> Mapping[str, str]:
    """Spark settings out of a file such as `spark-defaults.conf`, and out of texts such as `spark.executor.memory=2g`,
    which win. What does not begin with `spark.` is no setting of Spark. Raises `BadOption`."""
    found = {**dict(_of_file(properties)), **dict(map(_of_pair, pairs))}
    _check_lines(found)
    return found


def lines_of(settings: Mapping[str, str]) -> str:
    """`settings` as OFFSITE_SPARK_CONF tells them, a line each. Raises `BadOption` for one that is not a line."""
    _check_lines(settings)
    return "\n".join(f"{name}={value}" for name, value in settings.items())


def _check_lines(settings: Mapping[str, str]) -> None:
    """No value is told: it may be a secret."""
    for name, value in settings.items():
        if not _NAME.fullmatch(name):
            raise BadOption(f"{name[:200]!r} is no setting of Spark", hint="their names have no blanks and no =")
        if "\n" in value or "\0" in value:
            raise BadOption(f"the value of {name[:200]} is not one line of text", hint="write it without line breaks")


def _of_file(path: Path | None) -> Iterator[tuple[str, str]]:
    if path is None:
        return
    try:
        text, why = decode_text(path.read_bytes()), exposure(path.stat())
    except (OSError, NotUtf8) as error:
        raise BadOption(f"cannot read {path}: {error}", hint="check --spark-properties") from error
    settings = parse_properties(text)
    if why and secrets_apart({each.name: each.value for each in settings})[1]:
        warned("readable_by_others", why=f"it holds a secret, and {why}", file=path)
    for each in settings:
        if not each.name.startswith(_PREFIX):
            raise BadOption(
                f"{path}:{each.line}: {each.name!r} is no setting of Spark", hint="their names begin with spark."
            )
        yield each.name, each.value.strip()


def _of_pair(pair: str) -> tuple[str, str]:
    name, equals, value = pair.partition("=")
    if not equals or not name.strip().startswith(_PREFIX):
        raise BadOption(
            f"--spark-conf {name[:200]!r} is no setting of Spark",
            hint="write it as --spark-conf spark.executor.memory=2g",
        )
    return name.strip(), value.strip()
