"""A store that may be read and not written, as one on read-only media, or a bucket whose policy says so."""

from __future__ import annotations

from typing import NoReturn

from offsite.log.buffer import Buffer
from offsite.model.errors import StoreDenied
from offsite.stores.wrapped_store import TimedStore


class DeniedStore(TimedStore):
    def __init__(self, inner: object) -> None:
        super().__init__(inner, lambda *_: None)  # type: ignore[arg-type]

    def put_if_absent(self, key: str, data: object) -> NoReturn:
        raise _denied(key)

    def put_overwrite(self, key: str, data: Buffer) -> NoReturn:
        raise _denied(key)

    def open_write(self, key: str) -> NoReturn:
        raise _denied(key)

    def delete(self, key: str) -> NoReturn:
        raise _denied(key)

    def now_ms(self) -> NoReturn:
        raise _denied("clock")


def _denied(key: str) -> StoreDenied:
    return StoreDenied(f"cannot write {key}: Read-only file system", hint="give write access")
