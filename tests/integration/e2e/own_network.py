"""A network namespace of one's own, in which nobody else sends anything: a loopback device with two addresses.

The second one is no loopback address to whoever looks at its name, and all the same nothing sent there leaves the
machine.
"""

from __future__ import annotations

import fcntl
import functools
import os
import socket
import struct
import subprocess

OUTSIDE = "10.11.12.13"
_UP_AND_RUNNING = 0x49  # IFF_UP, IFF_LOOPBACK, IFF_RUNNING
_SET_FLAGS, _SET_ADDRESS = 0x8914, 0x8916  # linux/sockios.h


@functools.cache
def unshare() -> tuple[str, ...]:
    """The words before a command that runs it there, as root of the namespace; none where that cannot be had."""
    as_root = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    words = ("unshare", *as_root, "--net")
    try:
        done = subprocess.run([*words, "true"], check=False, capture_output=True, timeout=30)
    except OSError:
        return ()
    return words if done.returncode == 0 else ()


def bring_up() -> None:
    """Give the namespace of this process its loopback device."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP_AND_RUNNING))
        address = struct.pack("16sH2x4s8x", b"lo:1", socket.AF_INET, socket.inet_aton(OUTSIDE))
        fcntl.ioctl(any_socket, _SET_ADDRESS, address)
