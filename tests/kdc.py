"""A realm of Kerberos: MIT's key distribution centre as Debian builds it, unpacked and run by this user in a folder of
its own, on a port of loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from offsite.sandbox.settings import free_ports
from tests.fetched_tools import debian_tree

REALM = "OFFSITE.TEST"
PACKAGES = (
    *("krb5-kdc", "krb5-admin-server", "krb5-user"),
    *("libkadm5srv-mit12", "libkadm5clnt-mit12", "libkdb5-10", "libgssrpc4", "libverto1", "libverto-libev1", "libev4"),
    *("libkrb5-3", "libgssapi-krb5-2", "libk5crypto3", "libkrb5support0", "libcom-err2", "libkeyutils1", "libss2"),
)
_START_LIMIT_S = 20


class Kdc:
    """`config` is the krb5.conf of its clients."""

    def __init__(self, folder: Path, tree: Path) -> None:
        self._folder, self._tree = folder, tree
        (self._port,) = free_ports(1)
        self.config = folder / "krb5.conf"
        self._log = folder / "kdc.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.config.write_text(self._client_settings())
        (folder / "kdc.conf").write_text(self._settings())
        self._run("sbin/kdb5_util", "create", "-s", "-P", "master", "-r", REALM)

    def start(self) -> None:
        self._process = subprocess.Popen(
            [self._tree / "usr/sbin/krb5kdc", "-n"],
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=(self._folder / "kdc.out").open("wb"),
            stderr=subprocess.STDOUT,
        )
        ends_s = time.monotonic() + _START_LIMIT_S
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "kdc.out").read_text()
            assert time.monotonic() < ends_s, "the KDC does not start"
            time.sleep(0.02)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)
            self._process = None

    def add(self, principal: str, *, ticket_s: int = 3600) -> Path:
        """A new principal with a key that is nowhere but in the keytab returned."""
        self._admin(f"addprinc -randkey -maxlife {ticket_s}s {principal}")
        keytab = self._folder / f"{principal.replace('/', '_')}.keytab"
        self._admin(f"ktadd -k {keytab} {principal}")
        return keytab

    @staticmethod
    def keys_in(keytab: Path) -> list[bytes]:
        """The keys, as MIT writes them: version, and for each entry size, names, time, number and key."""
        data, keys = keytab.read_bytes()[2:], list[bytes]()
        while data:
            size = int.from_bytes(data[:4], "big")
            entry, data = data[4 : 4 + size], data[4 + size :]
            parts = 1 + int.from_bytes(entry[:2], "big")
            entry = entry[2:]
            for _ in range(parts):
                entry = entry[2 + int.from_bytes(entry[:2], "big") :]
            entry = entry[4 + 4 + 1 + 2 :]  # kind of the name, time, number of the key, kind of the key
            keys.append(entry[2 : 2 + int.from_bytes(entry[:2], "big")])
        return keys

    def change_key(self, principal: str) -> None:
        self._admin(f"cpw -randkey {principal}")

    def ticket_cache(self, principal: str, keytab: Path) -> Path:
        cache = self._folder / f"{principal}.cache"
        self._run("bin/kinit", "-k", "-t", str(keytab), "-c", str(cache), principal)
        return cache

    def tickets_of(self, principal: str) -> int:
        """How often the principal has logged in here."""
        lines = self._log.read_text().splitlines()
        return sum("AS_REQ" in line and "ISSUE" in line and f" {principal}@{REALM} for" in line for line in lines)

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
        except OSError:
            return False
        return True

    def _admin(self, command: str) -> None:
        self._run("sbin/kadmin.local", "-q", command)

    def _run(self, program: str, *arguments: str) -> None:
        command = [self._tree / "usr" / program, *arguments]
        done = subprocess.run(command, check=False, env=self._environment(), capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def _environment(self) -> dict[str, str]:
        (libraries,) = self._tree.glob("usr/lib/*/libkdb5.so.10")
        return {
            **os.environ,
            "LD_LIBRARY_PATH": str(libraries.parent),
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(self._folder / "kdc.conf"),
        }

    def _client_settings(self) -> str:
        return (
            f"[libdefaults]\ndefault_realm = {REALM}\ndns_lookup_kdc = false\ndns_lookup_realm = false\nrdns = false\n"
            "dns_canonicalize_hostname = false\nudp_preference_limit = 1\n"
            f"[realms]\n{REALM} = {{\n kdc = 127.0.0.1:{self._port}\n}}\n"
        )

    def _settings(self) -> str:
        (plugins,) = self._tree.glob("usr/lib/*/krb5/plugins/kdb")
        listen = f"127.0.0.1:{self._port}"
        return (
            f"[kdcdefaults]\nkdc_listen = {listen}\nkdc_tcp_listen = {listen}\n"
            f"[realms]\n{REALM} = {{\n database_name = {self._folder}/principal\n"
            f" key_stash_file = {self._folder}/stash\n acl_file = {self._folder}/acl\n}}\n"
            f"[dbmodules]\ndb_module_dir = {plugins}\n[logging]\nkdc = FILE:{self._log}\n"
        )


@contextmanager
def running_kdc(folder: Path) -> Iterator[Kdc]:
    """Raises `NoTool` where its packages cannot be had."""
    kdc = Kdc(folder, debian_tree("kerberos", PACKAGES))
    kdc.start()
    try:
        yield kdc
    finally:
        kdc.stop()
