"""The private parts of pyspark and py4j that the quick local start uses. All of it is here, since none is promised.

Local mode starts a JVM of its own and kills it at the end (see `jvm`), and workers are forked by a daemon of its own
(see `daemon`). pyspark has no public way to join a JVM that runs, to forget one that is gone, or to be quiet about
either. What a version of pyspark lacks shows before anything was copied: as an `AttributeError`, an `ImportError`, or
as the `TypeError` by which py4j tells that a Java class is not there. Then `PartMissing` is raised, around nothing but
these parts (an error of our own code must not pass for one), and Spark has to be started the plain way.
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

_WORKER = "pyspark.worker"  # not imported in the driver: that takes a tenth of a second


class PartMissing(Exception):
    """This pyspark has not what the quick start uses."""


def check_parts() -> None:
    """Return if all names are there. Raises `PartMissing`."""
    with _parts():
        for module, name in PARTS:
            attrgetter(name)(import_module(module))
        if find_spec(_WORKER) is None:
            raise ImportError(f"no module named {_WORKER}")


def join_jvm(port: int, secret: str, settings: Mapping[str, str], *, user: str = "") -> SparkContext:
    """The context of a JVM whose gateway listens at `port` of this machine, with `settings` beside those that the JVM
    was started with. `user`: a name for a user to whom the system gives none. Raises `PartMissing`; pyspark has
    forgotten the JVM then."""
    try:
        with _parts():
            return _joined(port, secret, settings, user)
    except PartMissing:
        _forget_jvm()
        raise


def running_at_once(context: SparkContext) -> int:
    """Tasks that the executors of `context` can run at once now; 0 where this Spark does not tell, or has none yet."""
    spark: Any = context._jsc.sc()  # noqa: SLF001
    try:
        profile = spark.resourceProfileManager().defaultResourceProfile()
        return int(spark.maxNumConcurrentTasks(profile))
    except Exception:  # noqa: BLE001  # Py4J's, for a method that is not there
        return 0


def executors_now(context: SparkContext) -> int | None:
    """How many executors `context` has just now; None where this Spark does not tell, or is ending."""
    spark: Any = context._jsc.sc()  # noqa: SLF001
    try:
        return int(spark.getExecutorMemoryStatus().size()) - 1  # the driver is one of them
    except Exception:  # noqa: BLE001  # Py4J's, for a method that is not there, or for a JVM that is gone
        return None


def submitted_conf() -> SparkConf:
    """The settings of the JVM that `spark-submit` has started this process with."""
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
        raise PartMissing(str(error)) from error


def expect_the_end(context: SparkContext) -> None:
    """Silence Py4J and the accumulator server, which would both write to stderr that the JVM is gone that we are about
    to kill. The server takes half a second to stop, which nobody needs to wait for."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    client: Any = context._gateway._gateway_client  # type: ignore[union-attr]  # noqa: SLF001
    client.is_connected = False  # or each object collected from now on would try to say farewell
    server = context._accumulatorServer  # noqa: SLF001  # pyspark has no public way
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    threading.Thread(target=server.shutdown, name="offsite-spark-end", daemon=True).start()
    context._accumulatorServer = None  # type: ignore[assignment]  # noqa: SLF001


def forget(context: SparkContext) -> None:
    """Forget the JVM of `context`, so that this process can start another: pyspark keeps the first one for ever, and
    believes it alive."""
    context._jsc = None  # noqa: SLF001  # without it `stop` only tidies up on the Python side
    context.stop()
    _forget_jvm()


def forget_jvm_of(context: SparkContext | None) -> None:
    """Forget a JVM that has ended, also one whose context never came up: else pyspark would go on asking it."""
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
    """Connect pyspark to a JVM that already runs. It takes the address from the environment only."""
    from pyspark.java_gateway import launch_gateway

    address = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    os.environ.update(address)
    try:
        return launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        for name in address:
            del os.environ[name]


def _forget_sql() -> None:
    """A SparkSession that this process had before left a hook: it looks for every error in classes that our JVM, which
    only schedules, does not have."""
    from py4j import java_gateway, protocol  # type: ignore[import-untyped]

    java_gateway.get_return_value = protocol.get_return_value
