"""Uploads in parts that nobody ended, as a killed process leaves them: listed, and given up. S3's, and its kin's.

obstore has no call for either. It signs addresses of objects, and puts what it is told of its server before them: so it
is told that the server's address is that of the bucket or the object, with the query that S3 asks for behind it, and
signs that. Credentials stay with obstore, wherever it found them. What is signed is asked for here and told to nobody.
"""

from __future__ import annotations

import errno
import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

from gristmill.core.extras import extra
from gristmill.places.base import Unfinished
from gristmill.places.clients import asked, make_client
from gristmill.places.storage import StorageOptions, options_for

with extra("remote", "An address in object storage"):
    import obstore
    from obstore import exceptions

if TYPE_CHECKING:
    from obstore.store import ObjectStore

Method = Literal["GET", "DELETE"]
_SIGNED_FOR = timedelta(minutes=5)
# What obstore puts behind an address ends here: a name that no server reads.
_LAST = {"x-id": ""}
_CODE = re.compile(rb"<Code>(\w+)</Code>")


def unfinished(path: str, root: str, key: str) -> Iterator[Unfinished]:
    """The uploads in the bucket `root` to the object `key` or below it, which is `path`; a page of 1,000 at a time.

    Whoever writes anonymously may not list them, and Google Storage signs nothing for most of its credentials.
    """
    after: dict[str, str] = {}
    while root.startswith("s3:") and not options_for(path).anonymous:
        page = _parsed(path, _answered(path, root, "GET", "", {"uploads": "", "prefix": key, **after}))
        for each in page.iterfind("{*}Upload"):
            name, began, number = (each.findtext(f"{{*}}{tag}", "") for tag in ("Key", "Initiated", "UploadId"))
            if f"{name}/".startswith(f"{key}/"):
                yield Unfinished(f"{root}/{name}", began, number)
        marks = {"key-marker": "{*}NextKeyMarker", "upload-id-marker": "{*}NextUploadIdMarker"}
        before, after = after, {name: page.findtext(tag, "") for name, tag in marks.items()}
        if page.findtext("{*}IsTruncated") != "true" or after == before:
            return


def give_up(root: str, upload: Unfinished) -> None:
    """Have the server remove the parts of an upload, if it has any by now."""
    with suppress(FileNotFoundError):
        key = upload.path.removeprefix(f"{root}/")
        _answered(upload.path, root, "DELETE", key, {"uploadId": upload.number})


def _parsed(path: str, answer: bytes) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(answer)
    except ElementTree.ParseError:
        raise OSError(errno.EIO, "the server lists no uploads", path) from None


def _answered(path: str, root: str, method: Method, key: str, query: dict[str, str]) -> bytes:
    """The body of an answer about the object `key`, or about the bucket; tried again as all requests are."""
    options = options_for(path)

    def request(store: ObjectStore) -> bytes:
        return _fetched(_signed(store, root, options, method, key, query), method, options.timeout)

    return asked(path, root, request)


def _signed(
    store: ObjectStore, root: str, options: StorageOptions, method: Method, key: str, query: dict[str, str]
) -> str:
    """The address of an object with a query, signed; where the object lies, the client of its bucket says."""
    assert isinstance(store, obstore.store.S3Store)
    place = obstore.sign(store, method, key, _SIGNED_FOR).partition("?")[0].rstrip("/")
    there = replace(options, endpoint=f"{place}?{urlencode({**query, **_LAST}, quote_via=quote)}")
    client = make_client(root, there, is_endpoint=True)
    assert isinstance(client, obstore.store.S3Store)
    return obstore.sign(client, method, "", _SIGNED_FOR)


def _fetched(address: str, method: Method, timeout: float) -> bytes:
    """What lies at a signed address; what fails is an error of obstore's kinds, without a word of the address."""
    try:
        with urllib.request.urlopen(urllib.request.Request(address, method=method), timeout=timeout) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        status, reason, code = error.code, error.reason, _code_of(error)
    except (OSError, http.client.HTTPException):
        status, reason, code = 0, "", ""
    if status == 404:
        raise FileNotFoundError(code)
    raise exceptions.GenericError(f"status code: {status} {reason}: {code}" if status else "no answer")


def _code_of(error: urllib.error.HTTPError) -> str:
    """What a server calls the error that it answers with."""
    with suppress(OSError, http.client.HTTPException), error:
        found = _CODE.search(error.read(4096))
        return found[1].decode() if found else ""
    return ""
