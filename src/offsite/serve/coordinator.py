"""The repositories of one coordinator, behind one gate: each request goes to one of them, or to the pages over all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus

from anyio import to_thread
from starlette.types import ASGIApp, Receive, Scope, Send

from offsite.serve.address import Address, base_of, split_path
from offsite.serve.answers import problem
from offsite.serve.repository_watch import RepositoryWatch
from offsite.serve.site import Site
from offsite.serve.tokens import Caller

REQUESTS_MAX = 32
"""Requests to one repository at once. Each may wait for its store in a thread, and a repository whose store hangs must
not take the threads of the others."""
_THREADS = 40
"""Threads for the pages over all."""


class OneRepository:
    """The application of a coordinator with one repository, at addresses without a prefix."""

    def __init__(self, site: Site, app: ASGIApp) -> None:
        self._site, self._app = site, app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})["site"] = self._site
        await self._app(scope, receive, send)


class SeveralRepositories:
    """The application of a coordinator with several. `whole`: the pages over all. `app`: those of one repository."""

    def __init__(self, watches: Mapping[str, RepositoryWatch], *, whole: ASGIApp, app: ASGIApp) -> None:
        self._watches, self._whole, self._app = watches, whole, app
        self._under_way: Counter[str] = Counter()

    def find(self, scope: Scope) -> Address | None:
        """Return the address of a request, for the gate; None: it has two readings."""
        address = split_path(scope["path"], scope.get("raw_path") or b"")
        if address is None or address.repository not in self._watches:
            return address
        return replace(address, read_only=self._watches[address.repository].site.settings.read_only)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`state.address`: as the gate found it."""
        to_thread.current_default_thread_limiter().total_tokens = _THREADS + REQUESTS_MAX * len(self._watches)
        address: Address = scope["state"]["address"]
        caller: Caller = scope["state"]["caller"]
        if address.repository in self._watches and caller.scope.allows_repository(address.repository):
            await self._of_repository(address, scope, receive, send)
        else:
            scope["state"]["watches"] = self._watches
            await self._whole(scope, receive, send)

    async def _of_repository(self, address: Address, scope: Scope, receive: Receive, send: Send) -> None:
        name = address.repository
        if self._under_way[name] >= REQUESTS_MAX:
            said = f"{REQUESTS_MAX} requests to repository {name} are being answered"
            refusal = problem(HTTPStatus.TOO_MANY_REQUESTS, id="OFF-1704", message=said, hint="send it again later")
            await refusal(scope, receive, send)
            return
        scope["state"]["site"] = self._watches[name].site
        scope["root_path"], scope["path"] = base_of(name), base_of(name) + address.path
        self._under_way[name] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._under_way[name] -= 1
