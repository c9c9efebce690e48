"""How object storage is reached: one option that the command line, recipes and Python share, for a prefix of addresses.

gm.storage("s3://corpus", endpoint="http://127.0.0.1:8333", region="us-east-1")
gm.storage("s3://open-data", anonymous=True)

It is kept in the environment, so that worker processes have it too, and holds no secret: keys are where the clouds' own
tools look for them.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from gristmill.core.arguments import as_text
from gristmill.core.errors import ConfigError
from gristmill.core.options import Options, check_fields, from_mapping
from gristmill.core.sizes import parse_size
from gristmill.core.values import Positive, Seconds, parse_json
from gristmill.places.retrying import Patience

VARIABLE = "GRISTMILL_STORAGE"
SCHEMES = ("s3", "gs", "az", "http", "https")
_SECRET = re.compile(r"key|secret|token|password|credential|sas", re.IGNORECASE)
_FIRST = 15.0


@dataclass(frozen=True)
class StorageOptions:
    """Where a bucket answers, who asks, and how long a request is tried for; no secret is taken here.

    `endpoint` the server's address, where it is not the cloud's own. `anonymous` for public buckets: nothing is signed.
    `region` and `profile` (of ~/.aws) are S3's. A request may take `timeout` seconds, `connect` of them to reach the
    server; what may pass is asked again for `deadline` seconds in all, and at most `tries` times if that is given.
    `cache` is a folder of this machine that keeps up to `cache_bytes` ("200GB") of what is fetched of stores.
    """

    endpoint: str | None = None
    region: str | None = None
    anonymous: bool = False
    profile: str | None = None
    deadline: Seconds = 120.0
    timeout: Seconds = 60.0
    connect: Seconds = 5.0
    tries: Positive | None = None
    cache: str | None = None
    cache_bytes: int | str | None = None

    def __post_init__(self) -> None:
        check_fields(self, "storage")
        if self.endpoint is not None and not re.fullmatch(r"https?://[^/@]+(/[^@]*)?", self.endpoint):
            raise ConfigError(
                "The endpoint of a storage is http://HOST:PORT or https://HOST, and holds no user or password."
            )
        if self.anonymous and self.profile is not None:
            raise ConfigError("storage: anonymous access uses no profile; leave one of them out.")
        if (self.cache is None) != (self.cache_bytes is None):
            raise ConfigError("storage: cache is a folder and cache_bytes how much it may hold: give both, or none.")
        if self.cache is not None and self.cache_bytes is not None:
            object.__setattr__(self, "cache", os.path.abspath(self.cache))
            object.__setattr__(self, "cache_bytes", parse_size(self.cache_bytes, "cache_bytes"))

    @property
    def cache_limit(self) -> int:
        """The bytes that the cache may hold; 0 where there is none."""
        return int(self.cache_bytes or 0)

    def patience(self, answered: bool) -> Patience:
        """How long to try: until there was a first answer, what does not answer is more likely misspelt than down."""
        return Patience(self.deadline if answered else min(self.deadline, _FIRST), self.tries)


def storage(address: str, **options: object) -> None:
    """Say how the addresses that begin with `address` ("s3://bucket", "s3://bucket/folder", "s3://" for all) are
    reached, in this process and those that it starts: endpoint, region, anonymous, profile, deadline, timeout, connect,
    tries, cache, cache_bytes. Said again, the last word counts.
    """
    use({address: as_storage(as_text("address", address, "an address such as s3://bucket"), options)})


def use(said: Mapping[str, StorageOptions]) -> None:
    """Let these options hold from now on; where one is as it was before, nothing is said of it."""
    if said:
        kept = {**_said(os.environ.get(VARIABLE, "")), **{_prefix(name): each for name, each in said.items()}}
        os.environ[VARIABLE] = json.dumps({name: _changed(each) for name, each in kept.items()}, sort_keys=True)


def as_storage(address: str, given: object) -> StorageOptions:
    """The options for an address, checked."""
    scheme, separator, _ = address.partition("://")
    if not separator or scheme not in SCHEMES:
        raise ConfigError(f"storage is for addresses such as s3://bucket, not for {address!r}.")
    if isinstance(given, StorageOptions):
        return given
    for name in given if isinstance(given, Mapping) else ():
        if _SECRET.search(str(name)):
            raise ConfigError(
                f"storage takes no secrets, and {name} is one: put it where the cloud's own tools look for it, in the "
                "environment (AWS_ACCESS_KEY_ID, ...) or in a profile of ~/.aws; docs/remote.md says where."
            )
    made = from_mapping(StorageOptions, given, f"the storage of {address}")
    if scheme != "s3" and (made.region is not None or made.profile is not None):
        raise ConfigError(f"The storage of {address} has no region and no profile: these are S3's.")
    return made


def parse_storage(text: str) -> dict[str, StorageOptions]:
    """What the command line is given: ADDRESS,name=value,flag."""
    address, *pairs = text.split(",")
    given: dict[str, object] = {}
    for name, equals, value in (pair.partition("=") for pair in pairs):
        given[name] = _value(name, value) if equals else True
    return {address: as_storage(address, given)}


def _value(name: str, text: str) -> object:
    """A number where the option is one; what is none is refused by its kind."""
    numbers = {
        field.name for field in fields(StorageOptions) if isinstance(field.default, float) or field.name == "tries"
    }
    if name == "anonymous":
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return (int if name == "tries" else float)(text) if name in numbers else text
    except ValueError:
        return text


def options_for(path: str) -> StorageOptions:
    """The options of the longest prefix that an address begins with."""
    said = _said(os.environ.get(VARIABLE, ""))
    fitting = [name for name in said if f"{path}/".startswith(name)]
    return said[max(fitting, key=len)] if fitting else _default()


@functools.cache
def _default() -> StorageOptions:
    """Made once: this is asked for with every request."""
    return StorageOptions()


@functools.lru_cache(maxsize=8)
def _said(text: str) -> Mapping[str, StorageOptions]:
    values = parse_json(text, f"The environment variable {VARIABLE}") if text else {}
    if not isinstance(values, dict):
        raise ConfigError(f"The environment variable {VARIABLE} must be a JSON object of addresses and their options.")
    return {_prefix(name): as_storage(name, given) for name, given in values.items()}


def _prefix(address: str) -> str:
    """An address as it is compared: with one slash at its end, or the two of a scheme alone."""
    return address if address.endswith("://") else address.rstrip("/") + "/"


def _changed(options: Options) -> dict[str, object]:
    return {name: value for name, value in asdict(options).items() if value != getattr(StorageOptions, name)}
