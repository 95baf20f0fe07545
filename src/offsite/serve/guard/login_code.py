"""The code in the login address of a coordinator without tokens: for the browser of its owner, once.

A terminal puts an opened address on the command line of a browser, readable for every user of the machine, and a
browser keeps the address in its history. Hence a code starts one session, and afterwards a new code is printed.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Callable


class LoginCode:
    """The valid code. `tell` is called with every code, and shows the code to the owner."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell, self._lock, self._code = tell, threading.Lock(), ""

    def renew(self) -> None:
        """Draw a code and show the code; the former code is void."""
        fresh = self._code = secrets.token_urlsafe(32)
        self._tell(fresh)

    def use(self, code: str) -> bool:
        """Return whether `code` is the valid code; if so, show the next code, which may wait for a terminal."""
        with self._lock:
            is_right = bool(self._code) and hmac.compare_digest(self._code.encode(), code.encode("utf-8", "replace"))
            if is_right:
                self._code = ""
        if is_right:
            self.renew()
        return is_right
