"""This machine and its other users: whether a host is this machine, which files others can reach, and how a Python
process starts without modules of theirs."""

from __future__ import annotations

import ipaddress
import os
import stat
import sys

OWN_PYTHON = (sys.executable, "-P")
"""Without `-P` both `-c` and `-m` look for modules in the current folder first: anybody with write access there, as
everybody has in `/tmp`, could run code."""


def is_loopback(host: str) -> bool:
    """Whether traffic to `host` stays on this machine, as far as the name alone tells: nothing is looked up."""
    name = host.strip("[]").rstrip(".").lower()
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")


def is_of_another(status: os.stat_result) -> bool:
    """Whether a user other than the present user and root owns the file, and can read and write the file whatever the
    mode."""
    return status.st_uid not in {0, os.geteuid()}


def can_others_write(status: os.stat_result) -> bool:
    """Whether a user other than the present user and root may write the file, by group or otherwise."""
    return is_of_another(status) or bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def can_others_reach(status: os.stat_result) -> bool:
    """Whether a user other than the present user and root may read or write the file, by group or otherwise."""
    return is_of_another(status) or bool(status.st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def exposure(status: os.stat_result) -> str:
    """Return the warning for a file with a secret, with the remedy; empty where only the present user, root and the
    file's group have access."""
    if is_of_another(status):
        return "another user owns it: change the owner to this user, and run chmod 600"
    return "every user of this machine can read or change it: run chmod 600" if status.st_mode & stat.S_IRWXO else ""
