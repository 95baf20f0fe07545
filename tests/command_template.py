"""A template of the `offsite` command: has imported all that commands import, and forks a process for each of them.

Tests run hundreds of commands, and most of what a short one takes is the start of Python. A fork has its own arguments,
environment, folder and output, runs the same `main`, and ends with an exit code of its own. Its /proc entry shows the
template's command line and environment: who looks there, kills, or asks what a start takes, starts a real one.

Run as a script: as a module it would be what usage messages name. Its standard input is a socket. An order is one byte,
with an open file for stdout and one for stderr, and then a line of JSON. The answers are the process id and the exit
code.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import offsite
from offsite.engine.local import pyspark_internals

ORDER = b"o"


def serve(orders: socket.socket) -> list[str]:
    """Carry out one order after the other, until whoever gives them has ended. Returns the arguments of a command: in
    its process, which goes on as that command."""
    requests = orders.makefile("rb")
    while True:
        order, files, _, _ = socket.recv_fds(orders, 1, 2)
        if not order:
            sys.exit()
        request = json.loads(requests.readline())
        child = os.fork()
        if child == 0:
            return become(request, files)
        for each in files:
            os.close(each)
        _answer(orders, child)
        _, status = os.waitpid(child, 0)
        _answer(orders, os.waitstatus_to_exitcode(status))


def become(request: Mapping[str, Any], files: Sequence[int]) -> list[str]:
    for target, source in enumerate((os.open(os.devnull, os.O_RDONLY), *files)):
        os.dup2(source, target)
        os.close(source)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    return list(request["arguments"])


def _answer(orders: socket.socket, number: int) -> None:
    orders.sendall(b"%d\n" % number)


def preload() -> None:
    for module in pkgutil.walk_packages(offsite.__path__, "offsite."):
        importlib.import_module(module.name)
    pyspark_internals.check_parts()
    gc.freeze()  # what is never collected is never copied


def main() -> None:
    preload()
    with socket.socket(fileno=os.dup(0)) as orders:
        sys.argv = serve(orders)
    end(run())


def run() -> int:
    """The command's exit code, as Python makes it of how `main` ends."""
    from offsite.cli.main import main as command

    try:
        command()
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)  # noqa: T201
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001  # as at the end of a script
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        return 1
    return 0


def end(exit_code: int) -> NoReturn:
    """What an interpreter does at its end, but for taking apart every module: that takes longer than most commands."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)


if __name__ == "__main__":
    main()
