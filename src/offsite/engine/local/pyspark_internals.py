"""The private parts of pyspark and py4j used by the quick local start, collected here because none is promised.

Local mode starts a JVM of its own and kills the JVM at the end (see `jvm`), and workers are forked by a daemon of its
own (see `daemon`). pyspark has no public way to join a running JVM, to forget a dead JVM, or to be quiet about either.
A missing part shows before anything was copied: as an `AttributeError`, an `ImportError`, or the `TypeError` by which
py4j reports a missing Java class. `InternalsMissing` is then raised, around nothing but these parts (an error of
offsite's own code must not pass for a missing part), and Spark has to be started the plain way.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

PARTS = (
    ("pyspark", "SparkContext._gateway"),
    ("pyspark", "SparkContext._jvm"),
    ("pyspark.java_gateway", "launch_gateway"),
    ("pyspark.daemon", "manager"),
    ("py4j.java_gateway", "get_return_value"),
    ("py4j.protocol", "get_return_value"),
)
"""Names by their modules."""

CONTEXT_PARTS = ("_jsc", "_gateway._gateway_client", "_accumulatorServer.shutdown", "_accumulatorServer.handle_error")
"""Names in a context, once it has started."""

_WORKER = "pyspark.worker"  # not imported in the driver, to save a tenth of a second


class InternalsMissing(Exception):
    """The installed pyspark lacks a part of the quick start."""


def check_parts() -> None:
    """Check that all names exist. Raises `InternalsMissing`."""
    with _parts():
        for module, name in PARTS:
            attrgetter(name)(import_module(module))
        if find_spec(_WORKER) is None:
            raise ImportError(f"no module named {_WORKER}")


def join_jvm(port: int, secret: str, settings: Mapping[str, str], *, user: str = "") -> SparkContext:
    """Return the context of a JVM whose gateway listens at `port` of this machine, with `settings` beside the JVM's
    start settings. `user`: a name for a user without a name in the system. Raises `InternalsMissing`, after pyspark has
    forgotten the JVM."""
    try:
        with _parts():
            return _joined(port, secret, settings, user)
    except InternalsMissing:
        _forget_jvm()
        raise


def running_at_once(context: SparkContext) -> int:
    """Return the number of tasks that the executors of `context` can run at once now; 0 where this Spark does not tell,
    or has none yet."""
    spark: Any = context._jsc.sc()  # noqa: SLF001
    try:
        profile = spark.resourceProfileManager().defaultResourceProfile()
        return int(spark.maxNumConcurrentTasks(profile))
    except Exception:  # noqa: BLE001  # Py4J's, for a method that is not there
        return 0


def executors_now(context: SparkContext) -> int | None:
    """Return the number of executors of `context` just now; None where this Spark does not tell, or is ending."""
    spark: Any = context._jsc.sc()  # noqa: SLF001
    try:
        return int(spark.getExecutorMemoryStatus().size()) - 1  # the driver is one of them
    except Exception:  # noqa: BLE001  # Py4J's exception for a missing method, or for a dead JVM
        return None


def submitted_conf() -> SparkConf:
    """Return the settings of the JVM with which `spark-submit` has started this process."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # noqa: SLF001
    return SparkConf()


def _joined(port: int, secret: str, settings: Mapping[str, str], user: str) -> SparkContext:
    from pyspark import SparkConf, SparkContext

    _forget_sql()
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    gateway = _connect(port, secret)
    if user:
        users = gateway.jvm.org.apache.hadoop.security.UserGroupInformation
        users.setLoginUser(users.createRemoteUser(user))
    context = SparkContext(conf=conf, gateway=gateway)
    try:
        attrgetter(*CONTEXT_PARTS)(context)
    except AttributeError:
        context.stop()
        raise
    return context


@contextmanager
def _parts() -> Iterator[None]:
    try:
        yield
    except (AttributeError, ImportError, TypeError) as error:
        raise InternalsMissing(str(error)) from error


def silence_shutdown(context: SparkContext) -> None:
    """Silence Py4J and the accumulator server before the JVM is killed: both would report the dead JVM on stderr. The
    server takes half a second to stop, and nobody needs to wait."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    client: Any = context._gateway._gateway_client  # type: ignore[union-attr]  # noqa: SLF001
    client.is_connected = False  # else every object collected from now on would try to say farewell
    server = context._accumulatorServer  # noqa: SLF001  # pyspark has no public way
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    threading.Thread(target=server.shutdown, name="offsite-spark-end", daemon=True).start()
    context._accumulatorServer = None  # type: ignore[assignment]  # noqa: SLF001


def forget(context: SparkContext) -> None:
    """Forget the JVM of `context`, to let the process start another: pyspark keeps the first JVM for ever, and believes
    the JVM alive."""
    context._jsc = None  # noqa: SLF001  # without it `stop` only tidies up on the Python side
    context.stop()
    _forget_jvm()


def forget_jvm_of(context: SparkContext | None) -> None:
    """Forget an ended JVM, even with a context that never came up: else pyspark would continue to ask the JVM."""
    from pyspark import SparkContext

    if context is not None:
        forget(context)
    elif SparkContext._active_spark_context is None:  # noqa: SLF001  # not somebody else's
        _forget_jvm()


def _forget_jvm() -> None:
    from pyspark import SparkContext

    SparkContext._gateway = None  # noqa: SLF001
    SparkContext._jvm = None  # noqa: SLF001


def _connect(port: int, secret: str) -> Any:  # noqa: ANN401  # Py4J has no types
    """Connect pyspark to a running JVM. pyspark takes the address from the environment only."""
    from pyspark.java_gateway import launch_gateway

    address = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    os.environ.update(address)
    try:
        return launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        for name in address:
            del os.environ[name]


def _forget_sql() -> None:
    """Remove the hook of an earlier SparkSession: for every error the hook looks in classes missing in offsite's JVM,
    which only schedules."""
    from py4j import java_gateway, protocol  # type: ignore[import-untyped]

    java_gateway.get_return_value = protocol.get_return_value
