"""The parent of Spark's Python workers: like `pyspark.daemon`, but ready before Spark asks. By its lock the driver
knows that all workers have ended.

Spark starts `python -m offsite.engine.local.daemon pyspark.worker` at the first task, and the process spends most of a
second on imports while the task waits. In local mode a *template* process does the imports while the JVM starts. The
process started by Spark then only hands stdin, stdout, stderr and environment over to the template, and the template
carries on as Spark's daemon. Without a template (a cluster, a dead template) the started process does the imports
itself. The module must import nothing but the standard library before it has to.

Life: the template ends with the driver (end of stdin) until taken over; from then on with the JVM, when the JVM closes
the handed-over stdin, as any Spark daemon. Every worker is a fork of the template, and so has the template's imports,
streams and lock.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import json
import os
import select
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

WORKERS_END_MAX_S = 10.0
"""How long killed workers may take to be gone: a thousand times the usual time."""
POLL_S = 0.005
_LOCK_NAME = "workers"

TEMPLATE_VARIABLE = "OFFSITE_NEST"
"""Environment variable with the path of the template's socket, for the process started by Spark."""
PRELOAD_VARIABLE = "OFFSITE_PRELOAD"
"""Environment variable of executors: names of modules, separated by blanks, that a daemon without a template
imports."""
STANDARD_STREAMS = (0, 1, 2)
MAX_ENVIRONMENT_BYTES = 4 << 20  # more than execve(2) allows by default on Linux (ARG_MAX is 2 MiB)


class WorkerLock:
    """The driver's side of the lock: a file in `folder`, deleted with the session.

    A restore that fails gives topics their own settings back, and must not do so while a worker may still write into
    the topics. Spark forgets a cancelled job at once, and the Python worker continues until its function returns. The
    parent of all workers on this machine takes the lock (shared) before the first fork, and every fork has it too
    (flock(2): one open file description), so the driver gets the lock only after the end of all.
    """

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / _LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)

    def all_ended(self, *, limit_s: float = WORKERS_END_MAX_S) -> bool:
        """Whether no worker is left. Waits at most `limit_s` seconds for ending workers. Call only at the end: after
        the answer True the driver has the lock, and no worker can be born any more."""
        deadline_s = time.monotonic() + limit_s
        try:
            while not _lock_taken(self._file, fcntl.LOCK_EX):
                if time.monotonic() > deadline_s:
                    return False
                time.sleep(POLL_S)
        except OSError:  # a file system without locks: nothing is known
            return False
        else:
            return True

    def close(self) -> None:
        os.close(self._file)


def hold_lock(folder: Path) -> bool:
    """Take the lock for as long as this process or any fork lives. False when the driver has ended the session: no
    worker may start afterwards."""
    path = folder / _LOCK_NAME
    try:
        file = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    with suppress(OSError):  # without locks the driver does not believe it has the lock, either
        return _lock_taken(file, fcntl.LOCK_SH) and path.exists()
    return True


def _lock_taken(file: int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def main() -> None:
    """Run as `template SOCKET MODULE…` to wait for a take-over; any further call is Spark's own."""
    if sys.argv[1:2] == ["template"]:
        template(sys.argv[2], sys.argv[3:])
    elif not hand_over(path := os.environ.get(TEMPLATE_VARIABLE)):
        if path is not None and not hold_lock(Path(path).parent):
            return
        import_ahead(os.environ.get(PRELOAD_VARIABLE, "").split())
        manage()


def template(path: str, modules: list[str]) -> None:
    """Import the modules that workers need, wait at the socket `path` for a take-over, then be Spark's daemon."""
    if not hold_lock(Path(path).parent):
        return
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)
        import_ahead(modules)
        ready, _, _ = select.select([sys.stdin.fileno(), listener], [], [])
        if listener not in ready:
            return
        relay, _ = listener.accept()
    Path(path).unlink()
    take_over(relay)
    manage()


def import_ahead(modules: list[str]) -> None:
    """Import modules in the parent, to be shared by forked workers, in time and in memory. pyspark's garbage collection
    after every task leaves the modules alone.

    Modules that start threads at import must stay out, because threads do not survive a fork. A module that fails to
    import is left to the first task in need: the task can tell the reason, and the offsite version of the executor.
    """
    gc.disable()  # imports make no garbage, and a collection costs a tenth of the time
    for module in ("pyspark.daemon", "pyspark.worker", "offsite.engine.job"):
        importlib.import_module(module)
    for module in modules:
        with suppress(Exception):
            importlib.import_module(module)
    gc.freeze()
    gc.enable()


def manage() -> None:
    from pyspark.daemon import manager

    manager()


def hand_over(path: str | None) -> bool:
    """Give the process's streams and environment to the template at `path`, and wait for the template's end. False
    without a template."""
    if path is None:
        return False
    with socket.socket(socket.AF_UNIX) as template_socket:
        try:
            template_socket.connect(path)
        except OSError:
            return False
        state = json.dumps({"argv": sys.argv, "environment": dict(os.environ)}).encode()
        socket.send_fds(template_socket, [len(state).to_bytes(8, "big")], list(STANDARD_STREAMS))
        template_socket.sendall(state)
        while template_socket.recv(1):
            pass  # the template never writes: the end of the stream is the template's end
    return True


def take_over(relay: socket.socket) -> None:
    """Become the process at the other end of `relay`. The connection stays open as long as this process lives."""
    size, streams, _, _ = socket.recv_fds(relay, 8, len(STANDARD_STREAMS))
    for received, standard in zip(streams, STANDARD_STREAMS, strict=True):
        os.dup2(received, standard)
        os.close(received)
    with relay.makefile("rb") as pipe:
        state = json.loads(pipe.read(min(int.from_bytes(size, "big"), MAX_ENVIRONMENT_BYTES)))
    sys.argv = state["argv"]
    os.environ.clear()
    os.environ.update(state["environment"])
    os.register_at_fork(after_in_child=relay.close)


if __name__ == "__main__":
    main()
