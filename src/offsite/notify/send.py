"""The process that sends messages: a request as JSON on standard input, a verdict for each address as JSON on standard
output, and not another word: what libraries print goes nowhere."""

from __future__ import annotations

import json
import logging
import os
import resource
import sys
import threading
import time
from collections.abc import Mapping

MEMORY_BYTES = 384 << 20
"""An answer that never ends fills this, and not the machine."""
TRIES = 2
_PAUSE_S = 2.0
_STDOUT, _STDERR = 1, 2


def main() -> None:
    """Send, and end: threads that hang are not waited for."""
    answers = os.dup(_STDOUT)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _STDOUT)
    os.dup2(nowhere, _STDERR)
    _limit_memory()
    logging.disable(logging.CRITICAL)
    verdicts = _send(json.load(sys.stdin))
    os.write(answers, json.dumps(verdicts).encode())
    os._exit(0)


def _send(request: Mapping[str, object]) -> list[str]:
    urls = request["urls"]
    assert isinstance(urls, list)  # noqa: S101  # offsite wrote it
    verdicts = ["late"] * len(urls)

    def send_one(number: int, url: str) -> None:
        try:
            verdicts[number] = _one(url, request)
        except BaseException:  # noqa: BLE001  # Apprise's, or no memory
            verdicts[number] = "broken"

    threads = [threading.Thread(target=send_one, args=(number, url), daemon=True) for number, url in enumerate(urls)]
    last_s = time.monotonic() + float(str(request["within_s"]))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, last_s - time.monotonic()))
    return list(verdicts)


def _one(url: str, request: Mapping[str, object]) -> str:
    from apprise import Apprise, AppriseAsset, NotifyFormat, NotifyType, PersistentStoreMode

    asset = AppriseAsset(app_id="offsite", http_redirects=False, storage_mode=PersistentStoreMode.MEMORY)
    sender = Apprise(asset=asset)
    if not sender.add(url):
        return "unknown"
    for attempt in range(TRIES):
        time.sleep(_PAUSE_S if attempt else 0)
        if sender.notify(
            title=str(request["title"]),
            body=str(request["body"]),
            notify_type=NotifyType(str(request["type"])),
            body_format=NotifyFormat.TEXT,
        ):
            return "sent"
    return "refused"


def _limit_memory() -> None:
    if sys.platform == "linux":
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        limit = MEMORY_BYTES if most == resource.RLIM_INFINITY else min(MEMORY_BYTES, most)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
