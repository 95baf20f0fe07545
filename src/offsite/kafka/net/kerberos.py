"""The mechanism `GSSAPI`: a Kerberos ticket of the broker's service, shown over SASL (RFC 4752).

The Kerberos library of the machine is called directly (MIT's `libgssapi_krb5`, by ctypes): Python packages of GSSAPI
have to be compiled against headers that a machine of a backup seldom has. Tickets from a keytab lie in a cache in the
memory of the process. The library renews them at a login when half of their life is over, so a run of days never meets
an ended ticket. Tickets of a cache in a file are used as they are, and read again by each login.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Mapping
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from ctypes.util import find_library
from functools import lru_cache
from pathlib import Path
from socket import gethostname
from threading import Event, Thread

from offsite.kafka.kerberos_login import MECHANISM, KerberosLogin
from offsite.model.errors import BadKafkaConfig, KafkaAuthenticationFailed, KafkaUnreachable, OffsiteError

_LIBRARY = "libgssapi_krb5.so.2"
_KERBEROS = bytes.fromhex("2a864886f712010202")  # 1.2.840.113554.1.2.2
_HOST_SERVICE = bytes.fromhex("2a864886f71201020104")  # 1.2.840.113554.1.2.1.4
_PRINCIPAL = bytes.fromhex("2a864886f71201020201")  # 1.2.840.113554.1.2.2.1
_INITIATE = 1
_MUTUAL, _IN_SEQUENCE = 2, 8
_CONTINUE = 1
_ERROR_MASK = 0xFFFF0000  # a calling or routine error; lower bits tell more of a success
_OF_GSS, _OF_MECHANISM = 1, 2
_NO_LAYER = b"\x01\x00\x00\x00"  # Kafka has no encryption of SASL: TLS encrypts
_LAYER_BYTES = 4
_MAX_TEXTS = 8
_KDC_LIMIT_S = 15  # enough to pass over one of several KDCs
_KDC_HINT = "check the KDC, and /etc/krb5.conf"
_LIBRARY_HINT = "install it: apt-get install libgssapi-krb5-2, or dnf install krb5-libs"
REFUSED_HINT = (
    "check principal, keytab or ticket cache, sasl.kerberos.service.name, /etc/krb5.conf and the clock there; kinit "
    "and kvno try the same; workers of a Spark cluster need files of their own"
)


class _Buffer(Structure):
    _fields_ = (("length", c_size_t), ("value", c_void_p))


class _Oid(Structure):
    _fields_ = (("length", c_uint32), ("elements", c_char_p))


class _Pair(Structure):
    _fields_ = (("key", c_char_p), ("value", c_char_p))


class _Pairs(Structure):
    _fields_ = (("count", c_uint32), ("elements", POINTER(_Pair)))


class Gssapi:
    """The client's side, in the shape of kafka-python's mechanisms. Not thread-safe; frees what it took at its end."""

    def __init__(self, login: KerberosLogin, host: str) -> None:
        self._context, self._credentials, self._target = c_void_p(), c_void_p(), c_void_p()
        self._established = self._chosen = self._is_done = False
        self._library = _library()
        self._next = b""
        _within(_KDC_LIMIT_S, lambda: self._begin(login, host))

    def __del__(self) -> None:
        if library := getattr(self, "_library", None):
            minor = c_uint32()
            library.gss_delete_sec_context(byref(minor), byref(self._context), None)
            library.gss_release_cred(byref(minor), byref(self._credentials))
            library.gss_release_name(byref(minor), byref(self._target))

    def auth_bytes(self) -> bytes:
        """The next message of the client. Raises `KafkaAuthenticationFailed`, or `KafkaUnreachable` without a KDC."""
        self._is_done = self._chosen
        return self._next

    def receive(self, answer: bytes) -> None:
        """Take the broker's answer. Raises `ValueError` for an answer that is none."""
        if self._chosen:
            if answer:
                raise ValueError("it goes on after its end")
        elif not self._established:
            self._next = self._step(answer)
        else:
            layers = self._unwrapped(answer)
            if len(layers) < _LAYER_BYTES or not layers[0] & _NO_LAYER[0]:
                raise ValueError("it asks for an encryption that Kafka does not have")
            self._next, self._chosen = self._wrapped(_NO_LAYER), True

    def is_done(self) -> bool:
        return self._is_done

    def _begin(self, login: KerberosLogin, host: str) -> None:
        """Do all that asks a KDC."""
        self._target = self._name(f"{login.service_name}@{host}", _HOST_SERVICE)
        self._acquire(login)
        self._next = self._step(b"")

    def _acquire(self, login: KerberosLogin) -> None:
        """Get the tickets of the cache, or new ones by the keytab."""
        if login.keytab:
            _check_readable(login.keytab)
        name = self._name(login.principal, _PRINCIPAL) if login.principal else c_void_p()
        minor, places = c_uint32(), _pairs(_places(login))
        major = self._library.gss_acquire_cred_from(
            byref(minor), name, 0, None, _INITIATE, places, byref(self._credentials), None, None
        )
        self._library.gss_release_name(byref(c_uint32()), byref(name))
        if major & _ERROR_MASK and login.keytab and "No credentials cache" in (why := self._text(major, minor)):
            raise _failed(f"the keytab {login.keytab} has no key of {login.principal} ({why})")
        self._check(major, minor)

    def _name(self, text: str, kind: bytes) -> c_void_p:
        name, minor, data = c_void_p(), c_uint32(), text.encode()
        given = _buffer(data)
        self._check(self._library.gss_import_name(byref(minor), byref(given), byref(_oid(kind)), byref(name)), minor)
        return name

    def _step(self, answer: bytes) -> bytes:
        minor, given, made = c_uint32(), _buffer(answer), _Buffer()
        major = self._library.gss_init_sec_context(
            *(byref(minor), self._credentials, byref(self._context), self._target, byref(_oid(_KERBEROS))),
            *(_MUTUAL | _IN_SEQUENCE, 0, None, byref(given), None, byref(made), None, None),
        )
        token = self._taken(made)
        self._check(major, minor)
        self._established = not major & _CONTINUE
        return token

    def _unwrapped(self, data: bytes) -> bytes:
        minor, given, made = c_uint32(), _buffer(data), _Buffer()
        major = self._library.gss_unwrap(byref(minor), self._context, byref(given), byref(made), None, None)
        if major & _ERROR_MASK:
            raise ValueError(self._text(major, minor))
        return self._taken(made)

    def _wrapped(self, data: bytes) -> bytes:
        minor, given, made = c_uint32(), _buffer(data), _Buffer()
        self._check(self._library.gss_wrap(byref(minor), self._context, 0, 0, byref(given), None, byref(made)), minor)
        return self._taken(made)

    def _taken(self, made: _Buffer) -> bytes:
        data = ctypes.string_at(made.value, made.length) if made.value else b""
        self._library.gss_release_buffer(byref(c_uint32()), byref(made))
        return data

    def _check(self, major: int, minor: c_uint32) -> None:
        if major & _ERROR_MASK:
            raise _failed(self._text(major, minor))

    def _text(self, major: int, minor: c_uint32) -> str:
        """What the library says: of Kerberos if it has a word, else of GSSAPI."""
        return "; ".join(self._texts(minor.value, _OF_MECHANISM) if minor.value else self._texts(major, _OF_GSS))

    def _texts(self, status: int, kind: int) -> list[str]:
        texts, more, minor = list[str](), c_uint32(), c_uint32()
        while len(texts) < _MAX_TEXTS:
            made = _Buffer()
            arguments = (status, kind, byref(_oid(_KERBEROS)), byref(more), byref(made))
            if self._library.gss_display_status(byref(minor), *arguments) & _ERROR_MASK:
                break
            texts.append(self._taken(made).decode(errors="replace"))
            if not more.value:
                break
        return texts


def _within(limit_s: float, call: Callable[[], None]) -> None:
    """Call in a thread of its own, and wait for `limit_s`: the library asks a KDC that is away for a minute, in which
    nothing interrupts it. A call that takes longer is left to its end; what it uses lives as long. Raises the errors of
    `call`, and `KafkaUnreachable`."""
    errors, is_done = list[BaseException](), Event()

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001  # raised where the caller waits
            errors.append(error)
        finally:
            is_done.set()

    Thread(target=run, name="kerberos", daemon=True).start()
    if not is_done.wait(limit_s):
        raise KafkaUnreachable(f"{MECHANISM}: there was no ticket within {limit_s:g} s", hint=_KDC_HINT)
    if errors:
        raise errors[0]


def _failed(why: str) -> OffsiteError:
    if "Cannot contact any KDC" in why:
        return KafkaUnreachable(f"{MECHANISM} on {gethostname()}: {why}", hint=_KDC_HINT)
    return KafkaAuthenticationFailed(f"{MECHANISM} authentication failed on {gethostname()}: {why}", hint=REFUSED_HINT)


def _check_readable(keytab: str) -> None:
    try:
        with Path(keytab).open("rb"):
            pass
    except OSError as error:
        raise _failed(f"cannot read the keytab {keytab}: {error.strerror}") from None


def _places(login: KerberosLogin) -> Mapping[str, str]:
    """Where the library finds tickets, and the key for new ones. A cache in memory belongs to one keytab and one
    principal."""
    if not login.keytab:
        return {"ccache": login.ticket_cache} if login.ticket_cache else {}
    digest = hashlib.sha256(f"{login.keytab}\0{login.principal}".encode()).hexdigest()[:16]
    return {"client_keytab": f"FILE:{login.keytab}", "ccache": f"MEMORY:offsite-{digest}"}


def _pairs(places: Mapping[str, str]) -> object:
    if not places:
        return None
    elements = (_Pair * len(places))(*[_Pair(key.encode(), value.encode()) for key, value in places.items()])
    return byref(_Pairs(len(places), elements))


def _oid(encoded: bytes) -> _Oid:
    return _Oid(len(encoded), encoded)


def _buffer(data: bytes) -> _Buffer:
    """The data, which must live as long as the buffer."""
    return _Buffer(len(data), ctypes.cast(c_char_p(data), c_void_p))


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    """MIT's library of GSSAPI. Raises `BadKafkaConfig` where there is none."""
    for name in (_LIBRARY, find_library("gssapi_krb5")):
        try:
            library = ctypes.CDLL(name) if name else None
        except OSError:
            continue
        if library is not None and hasattr(library, "gss_acquire_cred_from"):
            return _declared(library)
    why = f"{MECHANISM} needs MIT's Kerberos library, which is not on {gethostname()}"
    raise BadKafkaConfig(why, hint=_LIBRARY_HINT)


def _declared(library: ctypes.CDLL) -> ctypes.CDLL:
    """The types of what is called: without them, ctypes would cut pointers to 32 bits."""
    number, pointer = c_uint32, c_void_p
    for name, arguments in {
        "gss_import_name": [pointer] * 4,
        "gss_acquire_cred_from": [pointer, pointer, number, pointer, c_int, pointer, pointer, pointer, pointer],
        "gss_init_sec_context": [*[pointer] * 5, number, number, *[pointer] * 6],
        "gss_unwrap": [pointer] * 6,
        "gss_wrap": [pointer, pointer, c_int, number, pointer, pointer, pointer],
        "gss_display_status": [pointer, number, c_int, pointer, pointer, pointer],
        "gss_release_buffer": [pointer] * 2,
        "gss_release_cred": [pointer] * 2,
        "gss_release_name": [pointer] * 2,
        "gss_delete_sec_context": [pointer] * 3,
    }.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, number
    return library
