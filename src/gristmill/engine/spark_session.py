"""A Spark session for a run: of a master, of a server of Spark Connect, or of this machine.

What would cost a minute of retries, or a page of Java's traceback, is looked at first: Java, and whether anybody
answers; and what would wait for ever, next: whether a standalone cluster has room for the run.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

from gristmill.core.errors import ConfigError, EngineError
from gristmill.core.extras import extra

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_NAME = "gristmill"
# Seconds in which a server has to take a connection.
_PATIENCE = 10
# Seconds in which a standalone master has to give an executor.
_ROOM = 60
_JAVA, _MOST_SAID = re.compile(r"[\w.]+(?:Exception|Error): "), 400
_PORTS = {"spark": 7077, "sc": 15002}
_MASTER = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|yarn|(spark|k8s)://.+")
_NO_JAVA = "there is none on the PATH"
_JAVA_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def make_session(master: str | None, remote: str | None, workers: int) -> SparkSession:
    """A session of our own, to be stopped by whoever asked for it; without an address this machine with `workers`."""
    with extra("spark", "The engine spark"):
        from pyspark.sql import SparkSession
    if remote:
        _check_remote(remote)
        return _started(SparkSession.builder.remote(remote), remote)
    where = master or f"local[{workers},4]"  # four attempts: one that fails alone would end the run
    _check_master(where)
    _check_java()
    _check_answers(where)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(where).appName(_NAME).config("spark.ui.showConsoleProgress", "false")
    session = _started(builder, where)
    session.sparkContext.setLogLevel("FATAL")  # what fails is told in a sentence of ours, and not by page after page
    if where.startswith("spark://"):
        _check_room(session, where)
    return session


def _check_room(session: SparkSession, where: str) -> None:
    """Refuse a master that gives no executor to a first job, which would wait without a word; the job is nothing.

    It asks for executors where they are allocated when they are needed, too. Those that have been given and are slow to
    start are waited for: a master gives an application up whose executors end again and again.
    """
    first = threading.Thread(target=_do_nothing, args=(session,), daemon=True)
    first.start()
    first.join(_ROOM)
    while first.is_alive() and not _executors(session):
        if not _granted(session):
            session.stop()
            raise EngineError(
                f"Spark at {where} gave no executor in {_ROOM} seconds: all of its workers are taken, or none has the "
                "cores and the memory that are asked for. See its page, wait until some are free, or ask for less "
                "(spark.executor.memory, spark.executor.cores)."
            )
        first.join(_ROOM)


def _granted(session: SparkSession) -> bool:
    """Whether the master has given cores to this application, by what its page tells programs; no, if it has none."""
    context = session.sparkContext
    with suppress(Exception):  # of Java, of the network, or of a page that is not for us
        direct = build_opener(ProxyHandler({}))  # as Spark itself reaches the master
        with direct.open(f"{_page(context)}/json/", timeout=_PATIENCE) as answer:
            found = json.load(answer)
        return any(app["id"] == context.applicationId and app["cores"] > 0 for app in found["activeapps"])
    return False


def _page(context: SparkContext) -> str:
    """The address of a standalone master's page, at a port that the master itself is asked for."""
    jvm = context._jvm
    assert jvm is not None
    address = jvm.org.apache.spark.rpc.RpcAddress.fromSparkURL((context.master or "").split(",")[0])
    asked = "org.apache.spark.deploy.master.MasterMessages$BoundPorts"
    request, response = (jvm.java.lang.Class.forName(asked + what) for what in ("Request$", "Response"))
    master = jvm.org.apache.spark.SparkEnv.get().rpcEnv().setupEndpointRef(address, "Master")
    ports = master.askSync(request.getField("MODULE$").get(None), jvm.scala.reflect.ClassTag.apply(response))
    return f"http://{address.host()}:{ports.webUIPort()}"


def _do_nothing(session: SparkSession) -> None:
    with suppress(Exception):  # what is wrong, the work itself will tell
        session.range(1).count()


def _executors(session: SparkSession) -> int:
    """How many there are beside the driver, which is one of them to Spark."""
    return len(session.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1


def _started(builder: SparkSession.Builder, where: str) -> SparkSession:
    from pyspark.errors import PySparkException

    try:
        with extra("spark", "Spark Connect"):
            return builder.getOrCreate()
    except (PySparkException, OSError) as error:
        raise EngineError(f"Spark at {where} did not give a session: {told(error)}") from error


def _check_remote(remote: str) -> None:
    if urlsplit(remote).scheme != "sc":
        raise ConfigError(f"remote= is sc://HOST:PORT of a Spark Connect server, not {remote!r}.", arguments="remote")
    _check_answers(remote)


def _check_answers(address: str) -> None:
    """Refuse an address at which nobody takes connections; YARN and Kubernetes are found by Spark itself."""
    parts = urlsplit(address.split(",")[0])
    if parts.scheme not in _PORTS:
        return
    try:
        socket.create_connection((parts.hostname, parts.port or _PORTS[parts.scheme]), _PATIENCE).close()
    except (OSError, ValueError) as error:
        raise EngineError(f"Nobody answers at {address} ({error}): is Spark running there?") from error


def _check_master(master: str) -> None:
    """Refuse what Spark would answer by Java's traceback."""
    if not _MASTER.fullmatch(master):
        raise ConfigError(
            f"master= is spark://HOST:PORT, yarn, k8s://HOST:PORT or local[CORES], not {master!r}.", arguments="master"
        )


def _check_java() -> None:
    """Spark needs a Java of 17 or later (3.5 is content with 8) on this machine, unless it is by Spark Connect."""
    from pyspark import __version__

    home, least = os.environ.get("JAVA_HOME"), 8 if __version__.startswith("3.") else 17
    found = shutil.which(os.path.join(home, "bin", "java")) if home else shutil.which("java")
    version = _java_version(found) if found else 0
    if version is not None and version < least:
        what = f"{found} is Java {version}" if found else f"JAVA_HOME={home} has none" if home else _NO_JAVA
        raise ConfigError(
            f"Spark needs Java {least} or later, and {what}: apt-get install openjdk-17-jre-headless on Debian and "
            "Ubuntu, or use a Spark Connect server by remote=.",
            arguments="remote",
        )


def _java_version(java: str) -> int | None:
    """The 17 of "17.0.15", or the 8 of "1.8.0"; None where it does not say."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_PATIENCE).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _JAVA_VERSION.search(said)
    return int(found[1]) if found else None


def told(error: BaseException) -> str:
    """What an error of Spark's says, in a line: what stands behind the last of Java's names for it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    line = next((line for line in lines if _JAVA.search(line)), lines[0] if lines else type(error).__name__)
    return _JAVA.split(line)[-1][:_MOST_SAID]
