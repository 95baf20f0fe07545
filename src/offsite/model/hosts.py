"""Host names of this machine."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether traffic to `host` stays on this machine, as far as the name alone tells: nothing is looked up."""
    name = host.strip("[]").rstrip(".").lower()
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")
