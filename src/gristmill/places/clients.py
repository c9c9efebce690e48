"""Clients of object storage, one a bucket and process: made when first needed, and anew when credentials end.

A request that fails is tried again by itself (see `retrying.py`); obstore's own retries are off, so that the limits are
those of one policy. Only the parts of an upload are tried again by obstore, by the same figures: no part can be sent by
itself from here. A process that was forked after the first request has a copy of obstore's threads that will never
run: another reads for it (`errands.py`).
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from gristmill.core.errors import ConfigError, EngineError
from gristmill.core.extras import extra
from gristmill.places.aws_files import credentials_of, profile_of
from gristmill.places.retrying import expired, is_page, lacks_bucket, may_pass, reason_of, retried, status_of
from gristmill.places.storage import StorageOptions, options_for
from gristmill.places.traffic import traffic

with extra("remote", "An address in object storage"):
    from obstore import exceptions
    from obstore.store import AzureStore, GCSStore, HTTPStore, ObjectStore, S3Store

if TYPE_CHECKING:
    from obstore.store import BackoffConfig, ClientConfig, RetryConfig

    from gristmill.places.retrying import Patience

# What the clouds' tools read: credentials, endpoints, regions. When they change, a client is another.
_SETTINGS = (b"AWS_", b"GOOGLE_", b"AZURE_")
_MOST = 64
Settings = frozenset[tuple[bytes, bytes]]
# The environment as it was when its settings were read, and these.
_environment: tuple[dict[bytes, bytes], Settings] = ({}, frozenset())
_ANY_TRIES = 10_000
_clients: dict[object, ObjectStore] = {}
_making = threading.Lock()
_began_in: int | None = None
_answered = False
Result = TypeVar("Result")


def asked(path: str, root: str, request: Callable[[ObjectStore], Result], *, parts: bool = False) -> Result:
    """The answer to a request about `path`, which lies in the bucket `root`; with `parts` it is an upload of many.

    Credentials that are refused are found anew and tried once more; those that have expired, for as long as all else.
    """
    global _answered
    options = options_for(path)
    used: list[ObjectStore] = []

    def once() -> Result:
        used.append(_client(root, options, parts))
        traffic.add(requests=1, retries=len(used) > 1)
        return request(used[-1])

    def passes(error: Exception) -> bool:
        if not _refused(error):
            return may_pass(error)
        _forget(used[-1])
        return expired(error) or len(used) == 1

    with _errors(path):
        found = retried(once, options.patience(_answered), passes=passes)
    _answered = True
    return found


def _refused(error: Exception) -> bool:
    refusals = exceptions.PermissionDeniedError, exceptions.UnauthenticatedError
    return isinstance(error, refusals) or status_of(error) in (401, 403) or expired(error)


@contextmanager
def _errors(path: str) -> Iterator[None]:
    """What obstore raises, as the errors of the system that the rest of the house knows."""
    try:
        yield
    except FileNotFoundError as error:
        if lacks_bucket(error):
            raise ConfigError(f"{path} lies in a bucket that does not exist: make it, or mend the address.") from None
        raise FileNotFoundError(errno.ENOENT, "No such object", path) from None
    except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
        raise FileExistsError(errno.EEXIST, "it is another than it was", path) from None
    except exceptions.BaseError as error:
        # Its words hold the address that was asked, and with some clouds that holds a key: they are not passed on.
        if _refused(error):
            raise PermissionError(errno.EACCES, "the server refuses these credentials", path) from None
        if is_page(error):
            raise FileNotFoundError(errno.ENOENT, "a page, and no file", path) from None
        raise OSError(errno.EIO, reason_of(error), path) from None


def was_forked() -> bool:
    """Whether this process has only a copy of obstore's threads, which will never run."""
    return _began_in not in (None, os.getpid())


def _client(root: str, options: StorageOptions, parts: bool) -> ObjectStore:
    """The bucket's client under these options and the settings of the environment."""
    global _began_in
    if was_forked():
        raise EngineError(
            f"{root} was read before this process was forked, and the threads that write there do not survive that: "
            "let the process write that opened it."
        )
    _began_in = os.getpid()
    settings = _settings()
    with _making:
        found = _clients.get((root, options, settings, parts))
        if found is None:
            if len(_clients) >= _MOST:
                _clients.clear()
            found = _clients[root, options, settings, parts] = _made(root, options, parts)
    return found


def _settings() -> Settings:
    """Those of the environment as it is now. This is asked with every request: the dictionary behind `os.environ` is
    compared with what it was, in a microsecond, where reading its names takes 25.
    """
    global _environment
    held: dict[bytes, bytes] = vars(os.environ)["_data"]
    known = _environment
    if held != known[0]:
        now = held.copy()
        known = _environment = now, frozenset(item for item in now.items() if item[0].startswith(_SETTINGS))
    return known[1]


def _forget(client: ObjectStore) -> None:
    """Let the next request make a client with credentials that are found anew."""
    with _making:
        for key in [key for key, found in _clients.items() if found is client]:
            del _clients[key]


def _made(root: str, options: StorageOptions, parts: bool) -> ObjectStore:
    try:
        return make_client(root, options, options.patience(True) if parts else None)
    except (exceptions.BaseError, ValueError) as error:
        raise ConfigError(f"{root} cannot be asked with these settings ({reason_of(error)}).") from None


def make_client(
    root: str, options: StorageOptions, patience: Patience | None = None, *, is_endpoint: bool = False
) -> ObjectStore:
    """A client of a bucket, whose retries are ours, or its own with this `patience`.

    With `is_endpoint` a bucket of S3 answers at the endpoint itself, and not below it.
    """
    scheme, _, where = root.partition("://")
    retries = _retries(patience)
    if scheme == "s3":
        hosted = {"virtual_hosted_style_request": True} if is_endpoint else {}
        return _s3(where, options, retries, hosted)
    if scheme == "gs":
        return GCSStore(where, retry_config=retries, **_common(options, options.endpoint, "base_url"))
    if scheme == "az":
        account, _, container = where.partition("/")
        where_to = _common(options, options.endpoint, "endpoint")
        return AzureStore(container, account_name=account, retry_config=retries, **where_to)
    return HTTPStore.from_url(root, client_options=_limits(options, root), retry_config=retries)


def _retries(patience: Patience | None) -> RetryConfig:
    """A patience in obstore's words: its waits are as random, and no longer."""
    if patience is None:
        return {"max_retries": 0}
    first, longest, deadline = (timedelta(seconds=t) for t in (patience.first, patience.longest, patience.deadline))
    tries = _ANY_TRIES if patience.tries is None else patience.tries - 1
    backoff: BackoffConfig = {"init_backoff": first, "max_backoff": longest, "base": 2}
    return {"max_retries": tries, "backoff": backoff, "retry_timeout": deadline}


def _s3(bucket: str, options: StorageOptions, retries: RetryConfig, hosted: dict[str, bool]) -> S3Store:
    """S3 by the order of AWS's own tools: what is said, the environment, the profile, the machine's role."""
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    profile = {} if options.anonymous else profile_of(options.profile)
    said = next(filter(None, map(os.environ.get, names)), None)
    endpoint = options.endpoint or said or profile.get("endpoint_url")
    region = options.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    settings: dict[str, Any] = {"region": region or profile.get("region"), **hosted}
    if profile and (options.profile or not os.environ.get("AWS_ACCESS_KEY_ID")):
        settings["credential_provider"] = credentials_of(profile)
    given = {name: value for name, value in settings.items() if value is not None}
    where = _common(options, endpoint, "endpoint", "aws_endpoint_url_s3")
    return S3Store(bucket, retry_config=retries, **where, **given)


def _common(options: StorageOptions, endpoint: str | None, *names: str) -> dict[str, Any]:
    """What every kind of client is told; `names` are those that it has for its endpoint."""
    unsigned = {"skip_signature": True} if options.anonymous else {}
    where = dict.fromkeys(names, endpoint) if endpoint else {}
    return {"client_options": _limits(options, endpoint), **unsigned, **where}


def _limits(options: StorageOptions, endpoint: str | None) -> ClientConfig:
    connect, whole = (timedelta(seconds=limit) for limit in (options.connect, options.timeout))
    plain = endpoint is not None and endpoint.startswith("http:")
    return {"connect_timeout": connect, "timeout": whole, "allow_http": plain}
