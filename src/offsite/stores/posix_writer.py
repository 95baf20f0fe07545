"""One object on its way into a folder: a temporary file that becomes the object by a hard link."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from offsite.log.buffer import Buffer
from offsite.model.check import check
from offsite.model.size import MIB
from offsite.stores.posix_errors import wrapped
from offsite.stores.posix_temporaries import Temporaries
from offsite.stores.posix_writeback import Writeback
from offsite.stores.store import PutResult

_COMPARE_BYTES = 4 * MIB


class PosixWriter:
    """Writes a file of `temporaries`, then links it to `target`, whose folder `make_folder` makes and `sync_folder`
    fsyncs. `open_target` opens what has that name already."""

    def __init__(
        self,
        *,
        temporaries: Temporaries,
        target: Path,
        open_target: Callable[[], AbstractContextManager[int]],
        make_folder: Callable[[], None],
        sync_folder: Callable[[], None],
    ) -> None:
        self._temporary = temporaries.new_path()
        self._target = target
        self._open_target = open_target
        self._make_folder = make_folder
        self._sync_folder = sync_folder
        self._written = 0
        self._fd = temporaries.create(self._temporary)
        self._writeback = Writeback(self._fd)

    def write(self, data: Buffer) -> None:
        check(self._fd >= 0, "write to a closed object")
        left = memoryview(data)
        with wrapped("write", str(self._target)):
            while left:
                count = os.write(self._fd, left)
                self._written += count
                left = left[count:]
        self._writeback.advance(self._written)

    def close(self) -> PutResult:
        check(self._fd >= 0, "close of a closed object")
        try:
            with wrapped("write", str(self._target)):
                os.fsync(self._fd)
                self._make_folder()
                result = self._link()
                self._sync_folder()
            return result
        finally:
            self.abort()

    def abort(self) -> None:
        """Drop the temporary file; its loss or its staying changes nothing, so errors are not ours to report."""
        fd, self._fd = self._fd, -1  # a signal may interrupt this, and then it is called once more
        if fd >= 0:
            with contextlib.suppress(OSError):
                self._temporary.unlink()
            os.close(fd)

    def _link(self) -> PutResult:
        try:
            os.link(self._temporary, self._target)
        except FileExistsError:
            return PutResult.SAME if self._equals_target() else PutResult.OTHER
        return PutResult.CREATED

    def _equals_target(self) -> bool:
        with self._open_target() as other:
            return os.fstat(other).st_size == self._written and all(
                os.pread(self._fd, _COMPARE_BYTES, at) == os.pread(other, _COMPARE_BYTES, at)
                for at in range(0, self._written, _COMPARE_BYTES)
            )
