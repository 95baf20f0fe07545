"""The code in the address that a coordinator tells where nobody has a token: for its owner's browser, once.

A terminal that opens the address puts it on the command line of a browser, where every user of the machine can read it,
and a browser keeps it in its history. So a code begins one session, and then the next one is told.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Callable


class LoginCode:
    """The code that counts now. `tell` is called with each, where the owner sees it."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell, self._lock, self._code = tell, threading.Lock(), ""

    def renew(self) -> None:
        """Draw a code and tell it; the one before counts no more."""
        fresh = self._code = secrets.token_urlsafe(32)
        self._tell(fresh)

    def use(self, code: str) -> bool:
        """Whether `code` is the one that counts; if so, the next one is told, which may have to wait for a terminal."""
        with self._lock:
            is_right = bool(self._code) and hmac.compare_digest(self._code.encode(), code.encode("utf-8", "replace"))
            if is_right:
                self._code = ""
        if is_right:
            self.renew()
        return is_right
