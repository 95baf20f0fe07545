"""S3, Google Cloud Storage, Azure Blob Storage and compatible stores, through `obstore`; and a store in memory.

Create-only puts are conditional requests (S3: `If-None-Match: *`, answered by 412 or 409). The client retries requests,
bounded in count and time. A lost answer to a put is settled by reading the key back. An object goes out in one request,
because only a single request can be create-only; so a segment is held in memory until closed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from offsite.log.buffer import Buffer
from offsite.model.errors import (
    BadRepositoryUrl,
    OffsiteError,
    OverwritingStore,
    PutOutcomeUnknown,
    StoreDenied,
    StoreUnreachable,
    check,
)
from offsite.model.journal import decided
from offsite.model.untrusted.place import URL_HINT
from offsite.model.version import __version__
from offsite.stores.cloud_client import (
    Options,
    first_line,
    is_taken,
    is_unclear,
    is_unsupported,
    options_to_send,
    store_error,
    with_local_credentials,
    wrap_errors,
    wrap_request,
)
from offsite.stores.store import (
    ObjectInfo,
    PutResult,
    check_key,
    check_prefix,
    checked_size,
    join_buffers,
    named_key,
    store_wait,
)

if TYPE_CHECKING:
    from obstore import ObjectMeta, UpdateVersion
    from obstore.store import ObjectStore as Client

CLOCK_KEY = "clock"
"""An empty object, rewritten for every look at the time: the modification time comes from the store's clock."""
CLOCK_TRIES = 5
"""Further processes that ask for the time of an archive may delete the object meanwhile."""

_MAX_RETRIES = 8
_RETRY_TIMEOUT_S = 120
"""Longer than any outage from which a store recovers by itself, short enough for a waiting person."""

_CONNECT_TIMEOUT_S = 10
_REQUEST_TIMEOUT_S = 600.0  # one segment over a slow line
_SOON_S = 15.0
"""A person looks at a page meanwhile."""
_PUT_ATTEMPTS = 5
_PUT_PAUSE_S = 0.2
"""A 409 means another put of the key in progress: after a few short pauses the object exists, or the put was given
up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudStore:
    """Objects below a URL. `options`: the client's own settings, credentials included. Options are never shown, and
    pickled only where secrets may travel (`handle_secrets`)."""

    url: str
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    max_retries: int = _MAX_RETRIES
    retry_timeout_s: float = _RETRY_TIMEOUT_S
    request_timeout_s: float = _REQUEST_TIMEOUT_S

    def __reduce__(self) -> tuple[Callable[..., CloudStore], tuple[Any, ...]]:
        """Raises `SecretStays`."""
        sent, read_there = options_to_send(self.url, self.options)
        return _arrived, (self.url, sent, read_there, self.max_retries, self.retry_timeout_s, self.request_timeout_s)

    @property
    def folder(self) -> None:
        return None

    def retrying(self, *, retries: int, timeout_s: float) -> CloudStore:
        return replace(self, max_retries=retries, retry_timeout_s=timeout_s)

    @property
    def impatient(self) -> CloudStore:
        return replace(self, max_retries=1, retry_timeout_s=_SOON_S, request_timeout_s=_SOON_S)

    @property
    def sends_at_close(self) -> bool:
        return True

    def prepare(self) -> None:
        """Do nothing: the owner makes the bucket."""

    def put_if_absent(self, key: str, data: Buffer | Sequence[Buffer]) -> PutResult:
        body = join_buffers(data)
        for attempt in range(_PUT_ATTEMPTS):
            if (result := self._create(check_key(key), body)) is not None:
                return result
            pause_s = _PUT_PAUSE_S * (attempt + 1)
            why = (
                "the store reports that the object exists, but does not return it: another put is running, or was "
                "aborted"
            )
            decided("retry", attempt=attempt + 1, wait_s=pause_s, key=key, why=why)
            time.sleep(pause_s)
        raise PutOutcomeUnknown(
            f"{self._place(key)}: the store reports that the object exists, and also that it does not exist",
            hint="run the command again: it checks what was stored",
        )

    def put_overwrite(self, key: str, data: Buffer, *, metadata: Mapping[str, str] | None = None) -> None:
        """Replace an object. `metadata`: the object's user metadata."""
        import obstore

        with wrap_request("write", self._place(key)):
            obstore.put(self._client, check_key(key), data, attributes=dict(metadata or {}), use_multipart=False)

    def put_if_unchanged(self, key: str, old: bytes, data: Buffer) -> bool:
        """Replace `old`, the whole object, if `key` still holds `old`. Returns whether the object was replaced. Raises
        `OverwritingStore` where the store does not compare."""
        import obstore

        if (refused := _conditional_put_error(self)) is not None:
            raise OverwritingStore(refused.message, hint=refused.hint)
        # 1. Read the whole object, and compare.
        with wrap_request("read", self._place(key)):
            try:
                answer = obstore.get(self._client, check_key(key))
                meta, current = answer.meta, answer.bytes().to_bytes()
            except FileNotFoundError:
                return False
        if current != old:
            return False
        # 2. Put on condition of the version just read.
        try:
            with store_wait("write", self._place(key)):
                obstore.put(self._client, key, data, mode=_version(meta), use_multipart=False)
        except Exception as error:  # the client's errors have no common base
            if not is_taken(error) and not is_unclear(error):
                raise store_error("write", self._place(key), error) from error
            # 3. After a conflict or a lost answer, read back: equal bytes mean success.
            if self._read_back(key, error) == data:
                return True  # our own put, after a lost answer
            if is_unclear(error):
                raise store_error("write", self._place(key), error) from error
            return False
        return True

    def metadata(self, key: str) -> Mapping[str, str]:
        """Return the object's user metadata; empty when the object is missing."""
        import obstore

        with wrap_request("look at", self._place(key)):
            try:
                attributes = obstore.get(self._client, named_key(key), options={"head": True}).attributes
            except FileNotFoundError:
                return {}
        return {str(name): str(value) for name, value in attributes.items()}

    def check_conditional_put(self) -> None:
        """Check that the store refuses a put with the version of another object. Raises `OverwritingStore`."""
        import obstore

        self.put_overwrite(CLOCK_KEY, b"")
        place, other = self._place(CLOCK_KEY), _version({"e_tag": '"none"', "version": "1"})
        try:
            with store_wait("write", place):
                obstore.put(self._client, CLOCK_KEY, b"", mode=other, use_multipart=False)
        except Exception as error:  # the client's errors have no common base
            if is_taken(error):
                return
            if not is_unsupported(error):
                raise store_error("write", place, error) from error
        finally:
            with suppress(StoreDenied):
                self.delete(CLOCK_KEY)  # an archive belongs to further tools
        raise OverwritingStore(
            f"{self.url} ignores or does not support conditional puts: it would overwrite the data of another process",
            hint="stop all writers of the archive, and work on a copy of the archive in a folder",
        )

    def open_write(self, key: str) -> CloudWriter:
        return CloudWriter(store=self, key=check_key(key))

    def get(self, key: str) -> bytes | None:
        import obstore

        with wrap_request("read", self._place(key)):
            try:
                answer = obstore.get(self._client, named_key(key))
                checked_size(self._place(key), answer.meta["size"])
                return answer.bytes().to_bytes()
            except FileNotFoundError:
                return None

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        import obstore
        from obstore.exceptions import GenericError

        with wrap_request("read", self._place(key)):
            try:
                return obstore.get_range(self._client, named_key(key), start=start, length=length).to_bytes()
            except FileNotFoundError:
                return None
            except GenericError:
                info = self.head(key)
                if info is None or start < info.size_bytes:
                    raise
                return b""  # beyond the end: an error of the client

    def head(self, key: str) -> ObjectInfo | None:
        import obstore

        with wrap_request("look at", self._place(key)):
            try:
                return _info(obstore.head(self._client, named_key(key)))
            except FileNotFoundError:
                return None

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        import obstore

        with wrap_errors("list", self._place(prefix)):
            pages = iter(obstore.list(self._client, check_prefix(prefix) or None, offset=start_after or None))
        page: Sequence[ObjectMeta] | None = ()
        above = [start_after]  # keys that are prefixes of the next key
        while page is not None:
            for info in map(_info, page):
                while above and not info.key.startswith(above[-1]):
                    above.pop()
                if info.key not in above[-1:]:  # the client reports a marker `k/` as `k`, already yielded
                    above.append(info.key)
                    yield info
            with wrap_request(
                "list", self._place(prefix)
            ):  # not across a yield: a slow caller is no wait for the store
                page = next(pages, None)

    def delete(self, key: str) -> None:
        import obstore

        with wrap_request("delete", self._place(key)):
            try:
                obstore.delete(self._client, check_key(key))
            except FileNotFoundError:
                return

    def now_ms(self) -> int:
        """Return the modification time of a small object written just now; S3 gives whole seconds."""
        for _ in range(CLOCK_TRIES):
            self.put_overwrite(CLOCK_KEY, b"")
            if (info := self.head(CLOCK_KEY)) is not None:
                return info.modified_ms
        raise StoreUnreachable(f"{self._place(CLOCK_KEY)} was written but is missing", hint="run the command again")

    def sweep_unfinished(self, *, before_ms: int) -> int:  # noqa: ARG002
        """Remove nothing: an object not sent in full does not exist."""
        return 0

    @property
    def _client(self) -> Client:
        return _client(self, os.getpid())

    def _place(self, key: str) -> str:
        return f"{self.url}/{key}"

    def _create(self, key: str, body: Buffer) -> PutResult | None:
        """Try one create-only put. None: another writer is writing the key, so the caller should try again."""
        import obstore

        try:
            with store_wait("write", self._place(key)):
                obstore.put(self._client, key, body, mode="create", use_multipart=False)
        except Exception as error:  # the client's errors have no common base
            if not is_taken(error) and not is_unclear(error):
                raise store_error("write", self._place(key), error) from error
            # "It exists" may mean our own put: the client repeats a request after a lost answer.
            existing = self._read_back(key, error)
            if existing is None and is_unclear(error):
                raise store_error("write", self._place(key), error) from error
            if existing is None:
                return None
            result = PutResult.SAME if existing == body else PutResult.OTHER
            if is_unclear(error) or result is PutResult.SAME:
                why = "the answer to a put was lost, or an equal put was first: the key was read back"
                decided("put_settled", key=key, result=result.name, why=why)
            return result
        return PutResult.CREATED

    def _read_back(self, key: str, error: Exception) -> bytes | None:
        """Read the key after a put that ended with `error`."""
        try:
            return self.get(key)
        except OffsiteError as lost:
            raise PutOutcomeUnknown(
                f"{self._place(key)}: the answer to a put was lost, and the key cannot be read back: {lost.message}",
                hint="run the command again: it checks what was stored",
            ) from error


class CloudWriter:
    """An object on the way: gathered in memory, sent by `close` in one create-only request."""

    def __init__(self, *, store: CloudStore, key: str) -> None:
        self._store = store
        self._key = key
        self._gathered: bytearray | None = bytearray()

    def write(self, data: Buffer) -> None:
        check(self._gathered is not None, f"write to the closed object {self._key}")
        self._gathered += data  # type: ignore[operator]  # checked above

    def close(self) -> PutResult:
        check(self._gathered is not None, f"close of the closed object {self._key}")
        body, self._gathered = self._gathered or b"", None
        return self._store.put_if_absent(self._key, body)

    def abort(self) -> None:
        self._gathered = None


def _arrived(  # noqa: PLR0913, PLR0917  # a pickle passes arguments by position
    url: str,
    options: Options,
    read_here: bool,  # noqa: FBT001
    max_retries: int,
    retry_timeout_s: float,
    request_timeout_s: float,
) -> CloudStore:
    return CloudStore(
        url=url,
        options=with_local_credentials(options) if read_here else options,
        max_retries=max_retries,
        retry_timeout_s=retry_timeout_s,
        request_timeout_s=request_timeout_s,
    )


@lru_cache(maxsize=16)
def _client(store: CloudStore, process_id: int) -> Client:  # noqa: ARG001  # a fork must not inherit a client's threads
    from obstore.exceptions import BaseError
    from obstore.store import MemoryStore, from_url

    settings: dict[str, Any] = {
        "config": dict(store.options),
        "client_options": {
            "connect_timeout": timedelta(seconds=_CONNECT_TIMEOUT_S),
            "timeout": timedelta(seconds=store.request_timeout_s),
            "allow_http": True,
            "user_agent": f"offsite/{__version__}",
        },
        "retry_config": {
            "max_retries": store.max_retries,
            "retry_timeout": timedelta(seconds=store.retry_timeout_s),
        },
    }
    if urlsplit(store.url).scheme == "memory":
        return MemoryStore()
    try:
        client: Client = from_url(store.url, **settings)
    except (BaseError, ValueError, TypeError) as error:
        raise BadRepositoryUrl(f"{store.url} cannot be used: {first_line(error)}", hint=URL_HINT) from error
    return client


@lru_cache(maxsize=16)
def _conditional_put_error(store: CloudStore) -> OverwritingStore | None:
    """Return the error for a store without conditional puts, None for a store with them. Asked once per process,
    because the answer does not change."""
    try:
        store.check_conditional_put()
    except OverwritingStore as error:
        return error
    return None


def _version(meta: Mapping[str, Any]) -> UpdateVersion:
    return {"e_tag": meta.get("e_tag") or "", **({"version": meta["version"]} if meta.get("version") else {})}


def _info(meta: ObjectMeta) -> ObjectInfo:
    return ObjectInfo(
        key=meta["path"], size_bytes=meta["size"], modified_ms=int(meta["last_modified"].timestamp() * 1000)
    )
