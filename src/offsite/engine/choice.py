"""The Spark for jobs and its settings, as chosen by a person: one frozen value for commands and programs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from offsite.engine.settings import split_secrets
from offsite.model.choices import SecretsChoice
from offsite.model.errors import BadOption
from offsite.model.journal import warned
from offsite.model.untrusted.file_access import exposure
from offsite.model.untrusted.properties import parse_properties
from offsite.model.untrusted.text import NotUtf8, decode_text

VARIABLES = frozenset(f"OFFSITE_SPARK_{name}" for name in ("MASTER", "CONF", "PROPERTIES", "ARCHIVE")) | {
    "OFFSITE_SECRETS"
}
"""Environment variables by which commands learn everything chosen here."""

_PREFIX = "spark."
_NAME = re.compile(r"spark\.[^\s=\0]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkChoice:
    """`master`: a Spark master URL, `SUBMITTED`, or None for this machine's cores. `conf`: Spark settings, without
    secrets of Kafka or of a store. `archive`: a file or URL made by `offsite spark pack`, for executors without
    offsite. `secrets`: how executors get Kafka's secrets."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    archive: str | None = None
    secrets: SecretsChoice = SecretsChoice.DEFAULT

    def __post_init__(self) -> None:
        """Take the master out of the settings, unless one was named besides, because most settings files contain a
        master. The master decides where code runs, and whether others can read the traffic."""
        conf = dict(self.conf)
        named = conf.pop("spark.master", None)
        object.__setattr__(self, "conf", conf)
        object.__setattr__(self, "master", self.master or named)

    def environment(self) -> Mapping[str, str]:
        """Return the variables by which another command makes the same choice, given no further `VARIABLES`. Raises
        `BadOption` for settings that do not fit on a line."""
        variables = {
            "OFFSITE_SPARK_MASTER": self.master,
            "OFFSITE_SPARK_CONF": lines_of(self.conf),
            "OFFSITE_SPARK_ARCHIVE": self.archive,
            "OFFSITE_SECRETS": str(self.secrets),
        }
        return {name: value for name, value in variables.items() if value}


def settings_of(properties: Path | None, pairs: Sequence[str]) -> Mapping[str, str]:
    """Read Spark settings from a file such as `spark-defaults.conf`, and from texts such as `spark.executor.memory=2g`,
    which win. Raises `BadOption` for a name without the prefix `spark.`, and for unreadable settings."""
    settings = {**dict(_of_file(properties)), **dict(map(_of_pair, pairs))}
    _check_lines(settings)
    return settings


def lines_of(settings: Mapping[str, str]) -> str:
    """Return `settings` in the form of OFFSITE_SPARK_CONF, one line per setting. Raises `BadOption` for a setting that
    does not fit on a line."""
    _check_lines(settings)
    return "\n".join(f"{name}={value}" for name, value in settings.items())


def _check_lines(settings: Mapping[str, str]) -> None:
    """Check names and values. No message holds a value, because a value may be a secret."""
    for name, value in settings.items():
        if not _NAME.fullmatch(name):
            raise BadOption(f"{name[:200]!r} is not a Spark setting", hint="names of settings have no blanks and no =")
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
    if why and split_secrets({setting.name: setting.value for setting in settings})[1]:
        warned("readable_by_others", why=f"it contains a secret, and {why}", file=path)
    for setting in settings:
        if not setting.name.startswith(_PREFIX):
            raise BadOption(
                f"{path}:{setting.line}: {setting.name!r} is not a Spark setting",
                hint="names of Spark settings begin with spark.",
            )
        yield setting.name, setting.value.strip()


def _of_pair(pair: str) -> tuple[str, str]:
    name, equals, value = pair.partition("=")
    if not equals or not name.strip().startswith(_PREFIX):
        raise BadOption(
            f"--spark-conf {name[:200]!r} is not a Spark setting",
            hint="write it as --spark-conf spark.executor.memory=2g",
        )
    return name.strip(), value.strip()
