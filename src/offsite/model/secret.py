"""Secret values, and whether they may travel to the workers of a Spark cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum

from offsite.model.errors import SecretStays


class SecretHandling(Enum):
    """How pickling a task handles secrets.

    `SENT`: secrets go along. `READ_THERE`: a secret from a file goes as the file's name, and the task reads the file
    where it runs; further secrets stay. `STAYS`: a task with a secret is refused.
    """

    SENT = "sent"
    READ_THERE = "read there"
    STAYS = "stays"


_travel: ContextVar[SecretHandling] = ContextVar("offsite-secrets", default=SecretHandling.STAYS)


@contextmanager
def handle_secrets(handling: SecretHandling) -> Iterator[None]:
    """A block in which this thread pickles secrets by `handling`; outside of such a block, secrets are never
    pickled."""
    token = _travel.set(handling)
    try:
        yield
    finally:
        _travel.reset(token)


def secret_handling() -> SecretHandling:
    return _travel.get()


class Secret:
    """A value kept out of sight: of logs, tracebacks, plans, and the configuration of Spark.

    Every way of printing shows `***`; only `reveal()` returns the text. A secret is pickled only in a block of
    `handle_secrets`: the guard sits where bytes are made, so that no task can carry a secret by oversight.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the secret itself. Call at the place of use, and keep the result nowhere."""
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        """Pickle the secret. Raises `SecretStays`. An empty text is no secret."""
        match secret_handling() if self._text else SecretHandling.SENT:
            case SecretHandling.SENT:
                return Secret, (self._text,)
            case SecretHandling.READ_THERE:
                raise SecretStays(
                    "a task would carry a Kafka password, key or token that is not in a file of --kafka-config",
                    hint="put it into a file that every executor has at the same path: --kafka-config FILE",
                )
            case SecretHandling.STAYS:
                raise SecretStays(
                    "a task would send a Kafka password, key or token over a network that Spark does not encrypt",
                    hint="enable spark.authenticate and spark.network.crypto.enabled, here and on the cluster; or let "
                    "executors read the secret from the file of --kafka-config at the same path: --secrets "
                    "on-executors; or send it unencrypted: --secrets in-clear",
                )

    def __repr__(self) -> str:
        return "Secret('***')"

    def __str__(self) -> str:
        return "***"


def masked(text: str, secrets: Iterable[str]) -> str:
    """Return `text` with `***` in the place of every secret, in the order of `secrets`. An empty one is none."""
    for secret in filter(None, secrets):
        text = text.replace(secret, "***")
    return text
