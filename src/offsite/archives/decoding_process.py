"""Decodes a foreign file in another process, with limits of memory and of time.

pyarrow and fastavro believe the numbers in a file: a few bytes may claim terabytes, loop for years, or end the process.
The limits bound all of that, also what nobody thought of; the end of the process becomes a damage of the file. The
process is a copy (`fork`) of a server. A program has one server at most; the server has a single thread, imports the
libraries, and never reads a file. The bytes of a file come from the parent: neither the server nor the copy knows a
secret. This is no sandbox: code that a file managed to run would run with the rights of the user.

A start costs milliseconds, which small files do not take themselves. So a process that ended a decoding in order, and
has little more memory than at its start, decodes the next file, with new limits. Its end proves nothing against that
file (`DecodingEnded.was_shared`): the file is decoded again `alone`, by a process that never saw another.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import pickle
import resource
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from math import ceil
from pathlib import Path
from threading import Lock
from time import process_time
from typing import Any, NoReturn

from offsite.model.errors import SparkFailed
from offsite.model.machine import OWN_PYTHON
from offsite.model.units import KIB, MIB

MAX_MEMORY_BYTES = 1024 * MIB
"""Memory of a decoding on top of the server's. A record with a key and a value of 100 MiB takes some 650 MiB."""
MAX_BASE_S = 20
"""Processor time of a decoding, whatever it reads. A block of Avro takes 5 s at most, a page of Parquet 1 s."""
MIN_BYTES_PER_S = MIB // 4
"""Bytes read and returned that give a decoding another second. The slowest, lines of small records that fit the second
schema only, does ten times as much on a fast machine."""
_PATIENCE_S = 600
"""Time without a message, by the clock: a decoding that hangs uses no processor time."""
_ENVIRONMENT = (
    "PATH",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "PYTHONHOME",
    "PYTHONPYCACHEPREFIX",
)
"""All that is passed on: credentials are in others."""
_ALLOCATION = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # others reserve a GiB, which counts as memory
    "MALLOC_MMAP_THRESHOLD_": str(32 * MIB),  # else memory is fetched anew for each batch: a fifth of the time
    "MALLOC_TRIM_THRESHOLD_": str(256 * MIB),
    "MALLOC_TOP_PAD_": str(16 * MIB),
}
_KEPT_BYTES = 96 * MIB
"""Memory above the start with which a process is kept: the system's allocator takes 16 MiB for the smallest file."""
_STOPS_WITHIN_S = 1.0
"""How long a process that should wait for an answer may take to ask. One that computes is ended instead."""
_HEAD = struct.Struct("<QQQ")
_MODULE_BYTES = 200
_SPARE_HANDLES = 128
"""Open files that a program needs besides those of decodings."""

Ask = Callable[[Any], Any]
"""Asks the parent for something: the bytes of the file."""


class DecodingEnded(ValueError):
    """The process that decodes a file went over a limit, or crashed: nothing more can be read from the file.

    `was_shared`: the process had decoded other files before, so it may have ended because of them.
    """

    was_shared = False


def decode_apart(
    decode: str, answer: Callable[[Any], Any], *args: object, alone: bool = False, **options: object
) -> Iterator[Any]:
    """Yield the items of the generator `decode` (`module:function`), called as `decode(ask, *args, **options)` in
    another process; `alone`: in one that decoded nothing before. Requests, answers and items are pickled; `answer`
    answers requests. A buffer in an item is valid until the next item.

    Raises `DecodingEnded` for the end of the process, `SparkFailed` when the machine killed the process, and the errors
    of `answer` and of `decode`.
    """
    module, _, function = decode.partition(":")
    server = _server()
    decoder = (None if alone else server.take(module)) or server.fork(module)
    is_kept = False
    try:
        decoder.channel.send((module, function, args, options, MAX_MEMORY_BYTES, MAX_BASE_S))
        while True:
            kind, value = decoder.channel.receive()
            if kind == "item":
                yield value
            elif kind == "ask":
                decoder.channel.send(answer(value))
            elif kind == "end":
                is_kept = value
                return
            else:
                raise value
    except GeneratorExit:
        is_kept = server.stop(decoder)
        raise
    except (BlockingIOError, EOFError, ConnectionError, DecodingEnded) as error:
        raise _explained(error, server, decoder) from None
    finally:
        if is_kept:
            server.keep(module, decoder)
        else:
            server.end(decoder)


def _explained(error: Exception, server: _Server, decoder: _Decoder) -> Exception:
    if isinstance(error, BlockingIOError):
        error = DecodingEnded("decoding it does not go on")
    elif not isinstance(error, DecodingEnded):
        error = _end_of(server.reap(decoder.pid))
    if isinstance(error, DecodingEnded):
        error.was_shared = decoder.is_used
    return error


def _end_of(code: int) -> Exception:
    if code == -signal.SIGKILL:  # of a machine without memory: this says nothing about the file
        return SparkFailed("the process that decodes a file was killed", hint="give the worker more memory")
    if code == -signal.SIGXCPU:
        return DecodingEnded("decoding it takes too much time")
    name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return DecodingEnded(f"decoding it ends the process ({name})")


class _Channel:
    """Sends and receives pickled messages. A large buffer in a message is not copied on the way.

    `keeps_buffer`: a received buffer lies in the same memory as the buffer before.
    """

    def __init__(self, end: socket.socket, *, keeps_buffer: bool) -> None:
        self._socket, self._keeps_buffer = end, keeps_buffer
        self._buffer = bytearray()
        self.moved_bytes = 0

    def send(self, message: object) -> None:
        """Send a message with one buffer at most."""
        buffers = list[pickle.PickleBuffer]()
        data = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
        views = [buffer.raw() for buffer in buffers]
        self._socket.sendall(_HEAD.pack(len(data), len(views), sum(map(len, views))) + data)
        for view in views:
            self._socket.sendall(view)
        self.moved_bytes += len(data) + sum(map(len, views))

    def receive(self) -> Any:  # noqa: ANN401  (a message)
        """Return the next message. Raises `EOFError`, and `BlockingIOError` after the patience of the socket."""
        data_bytes, buffer_count, buffer_bytes = _HEAD.unpack(self._read(memoryview(bytearray(_HEAD.size))))
        data = self._read(memoryview(bytearray(data_bytes)))
        buffers = [self._read(self._room(buffer_bytes))] * buffer_count
        self.moved_bytes += data_bytes + buffer_bytes
        return pickle.loads(data, buffers=buffers)  # noqa: S301  (of this very program)

    def close(self) -> None:
        self._socket.close()

    def wait_for(self, limit_s: float) -> None:
        """Let `receive` wait for so long."""
        seconds, rest_s = divmod(limit_s, 1)
        limit = struct.pack("@ll", int(seconds), int(rest_s * 1e6))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)

    def begin_anew(self) -> None:
        """Forget what was received and counted."""
        self._buffer, self.moved_bytes = bytearray(), 0

    def is_open(self) -> bool:
        """Whether the other end is open, and has sent nothing."""
        try:
            self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def _room(self, size_bytes: int) -> memoryview:
        if not self._keeps_buffer or len(self._buffer) < size_bytes:
            self._buffer = bytearray(size_bytes)
        return memoryview(self._buffer)[:size_bytes]

    def _read(self, view: memoryview) -> memoryview:
        position = 0
        while position < len(view):
            received = self._socket.recv_into(view[position:], 0, socket.MSG_WAITALL)
            if not received:
                raise EOFError
            position += received
        return view


@dataclass(slots=True)
class _Decoder:
    """A process that decodes one file at a time. `is_used`: it decoded a file before."""

    channel: _Channel
    pid: int
    is_used: bool = False


class _Stop(BaseException):
    """The answer that ends a decoding whose reader has gone."""


class _Server:
    """The parent's side of the server. `_running`: processes that nobody ended. `_ended`: killed, and not yet reaped.
    `_kept`: at most one waiting process for each module."""

    def __init__(self) -> None:
        self.owner_pid = os.getpid()
        self._running = set[int]()
        self._ended = list[int]()
        self._kept = dict[str, _Decoder]()
        self._lock = Lock()
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [*OWN_PYTHON, "-c", f"from {__name__} import serve; serve({theirs.fileno()})"],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=_environment(),
            )
        atexit.register(self.close)

    @property
    def is_usable(self) -> bool:
        """False in a copy of the program, when somebody ended the server, and after an interrupted request."""
        is_open = self._control.fileno() >= 0
        return is_open and self.owner_pid == os.getpid() and self._process.poll() is None

    def take(self, module: str) -> _Decoder | None:
        """Return the waiting process of a module; None: there is none."""
        decoder = self._kept.pop(module, None)
        if decoder is None or decoder.channel.is_open():
            return decoder
        self.end(decoder)  # somebody ended it while it waited
        return None

    def keep(self, module: str, decoder: _Decoder) -> None:
        """Let a process wait for the next file."""
        decoder.is_used = True
        decoder.channel.begin_anew()
        if self._kept.setdefault(module, decoder) is not decoder:
            self.end(decoder)

    def stop(self, decoder: _Decoder) -> bool:
        """Let a process give up its file, if it waits for an answer; returns whether it may be kept. Does nothing in a
        copy of the program, which may hold the readers of the program."""
        if self.owner_pid != os.getpid():
            return False
        try:
            decoder.channel.wait_for(_STOPS_WITHIN_S)
            kind, value = decoder.channel.receive()
            if kind == "ask":
                decoder.channel.send(_Stop())
                kind, value = decoder.channel.receive()
            decoder.channel.wait_for(_PATIENCE_S)
        except (OSError, EOFError):
            return False
        return kind == "end" and bool(value)

    def end(self, decoder: _Decoder) -> None:
        decoder.channel.close()
        self.kill(decoder.pid)

    def fork(self, module: str) -> _Decoder:
        """Start a process, with a module imported."""
        self._reap_ended()
        _allow_handles(len(self._running) + _SPARE_HANDLES)
        ours, theirs = socket.socketpair()
        channel = _Channel(ours, keeps_buffer=True)
        channel.wait_for(_PATIENCE_S)
        with theirs:
            pid = self._request(module.encode(), [theirs.fileno()])
        if not pid:
            ours.close()
            raise SparkFailed(
                f"no process can be started to decode a file, beside {len(self._running)} others",
                hint="raise the limit of processes (ulimit -u, pids.max), or read archives of fewer overlapping files",
            )
        self._running.add(pid)
        return _Decoder(channel, pid)

    def reap(self, pid: int) -> int:
        """Wait for the end of a process, and return its exit code as `subprocess` does."""
        self._running.discard(pid)
        return self._request(str(pid).encode(), [])

    def kill(self, pid: int) -> None:
        """End a process, unless it was reaped: until then its number is its own. Does nothing in a copy of the program,
        which may hold the readers of the program.

        The garbage collector may end a reader amid a request of this very thread: then the next one reaps the process.
        """
        if pid not in self._running or self.owner_pid != os.getpid():
            return
        self._running.discard(pid)
        with contextlib.suppress(ProcessLookupError):  # of a server that somebody ended
            os.kill(pid, signal.SIGKILL)
        self._ended.append(pid)
        if not self._lock.locked():
            self._reap_ended()

    def _reap_ended(self) -> None:
        while self._ended:
            with contextlib.suppress(IndexError, SparkFailed):  # taken by another thread; a server that somebody ended
                self.reap(self._ended.pop())

    def close(self) -> None:
        if self.owner_pid == os.getpid():
            self._control.close()
            self._process.wait()

    def _request(self, text: bytes, handles: list[int]) -> int:
        with self._lock:
            try:
                socket.send_fds(self._control, [text.ljust(_MODULE_BYTES)], handles)
                answer = self._control.recv(_HEAD.size)
            except OSError:
                answer = b""
            except BaseException:  # an interrupt: the answer would be taken for that of the next request
                self._control.close()
                raise
        if not answer:
            raise SparkFailed("the server of decodings has ended", hint="give the worker more memory")
        return int(answer)


_servers: list[_Server] = []
_servers_lock = Lock()


def _server() -> _Server:
    with _servers_lock:
        if not _servers or not _servers[-1].is_usable:
            _servers[:] = [_Server()]
        return _servers[-1]


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    return {**kept, **_ALLOCATION, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}


def serve(handle: int) -> None:
    """Fork for a module and a handle, and wait for the process of a number, until the parent ends: the whole program of
    a server."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the parent's whole group
    running = set[int]()
    with contextlib.suppress(ConnectionError), socket.socket(fileno=handle) as control:
        while True:
            text, handles, _, _ = socket.recv_fds(control, _MODULE_BYTES, 1, socket.MSG_WAITALL)
            if not text:
                break
            if not handles:
                control.sendall(b"%d" % os.waitstatus_to_exitcode(os.waitpid(int(text), 0)[1]))
                running.discard(int(text))
                continue
            import_module(text.decode().strip())
            gc.freeze()  # else the copies write to all objects
            pid = 0
            with contextlib.suppress(BlockingIOError, MemoryError):  # no more processes: the parent tells it
                pid = os.fork() or _decode(control, socket.socket(fileno=handles[0]))
                running.add(pid)
            os.close(handles[0])
            control.sendall(b"%d" % pid)
    for pid in running:  # a decoding that hangs does not notice the end of a parent that was killed
        os.kill(pid, signal.SIGKILL)


def _decode(control: socket.socket, end: socket.socket) -> NoReturn:
    """Decode one file after the other, as long as the parent keeps the process, and exit."""
    try:
        control.close()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libraries that crash say so, and leave the records in a file
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        channel = _Channel(end, keeps_buffer=False)  # pyarrow refers to what it read
        most_bytes = _memory_bytes() + _KEPT_BYTES
        with contextlib.suppress(EOFError):
            while _decode_file(channel, most_bytes):
                channel.begin_anew()
    finally:
        os._exit(0)


def _decode_file(channel: _Channel, most_bytes: int) -> bool:
    """Run a decoding; returns whether the process may run another, as the parent learns: it ended in order, and the
    process has `most_bytes` of memory at most."""
    module, function, args, options, memory_bytes, base_s = channel.receive()
    _limit_memory(memory_bytes)
    base_s += ceil(process_time())

    def send(kind: str, value: object) -> None:
        channel.send((kind, value))
        _limit_time(base_s + channel.moved_bytes // MIN_BYTES_PER_S)

    def ask(request: object) -> object:
        send("ask", request)
        answer = channel.receive()
        if isinstance(answer, _Stop):
            raise answer
        return answer

    _limit_time(base_s)
    try:
        for item in getattr(import_module(module), function)(ask, *args, **options):
            send("item", item)
    except _Stop:
        pass
    except MemoryError:
        send("error", DecodingEnded(f"decoding it takes more than {memory_bytes // MIB} MiB of memory"))
        return False
    except Exception as error:  # noqa: BLE001  (the parent raises it)
        send("error", error)
        return False
    is_kept = _memory_bytes() <= most_bytes
    send("end", is_kept)
    return is_kept


def _memory_bytes() -> int:
    """Return the memory that counts against the limit. Systems other than Linux limit nothing: 0."""
    if sys.platform != "linux":
        return 0
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmData:")) * KIB


def _limit_memory(size_bytes: int) -> None:
    """Limit the memory on top of what the process has."""
    if sys.platform == "linux":
        _set_limit(resource.RLIMIT_DATA, _memory_bytes() + size_bytes)


def _limit_time(cpu_s: int) -> None:
    """At the hard limit, which may come from outside, the process would be killed as by a machine without memory."""
    _, most_s = resource.getrlimit(resource.RLIMIT_CPU)
    _set_limit(resource.RLIMIT_CPU, cpu_s if most_s == resource.RLIM_INFINITY else min(cpu_s, most_s - 1))


def _allow_handles(count: int) -> None:
    """Allow so many open files, if possible: each file of an archive that overlaps others has its own process."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed != resource.RLIM_INFINITY and allowed < count:
        with contextlib.suppress(OSError, ValueError):
            _set_limit(resource.RLIMIT_NOFILE, 2 * count)


def _set_limit(kind: int, limit: int) -> None:
    _, most = resource.getrlimit(kind)
    resource.setrlimit(kind, (limit if most == resource.RLIM_INFINITY else min(limit, most), most))
