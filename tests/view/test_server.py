"""Who is answered: whoever has the token, asks this host by its name, and comes from no other page."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gristmill.core.errors import ConfigError
from gristmill.view.server import serving
from gristmill.view.subject import open_subject
from view_site import Page, Site


def assert_nothing_told(page: Page, status: int = 403) -> None:
    assert page.status == status and page.text == ""
    assert not {"location", "content-security-policy", "content-type"} & set(page.headers)


PATHS = ["/", "/docs", "//", "/x/", "/x/docs", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/x/../docs", "/%00/"]


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_told_without_the_token(store_site: Site, path: str) -> None:
    assert_nothing_told(store_site.ask(path))


def test_nothing_is_told_for_part_of_the_token_or_another(store_site: Site) -> None:
    token = store_site.server.token
    for wrong in (token[:-1], f"{token}x", token[::-1], token.swapcase(), f"x/{token}"):
        assert_nothing_told(store_site.ask(f"/{wrong}/"))
    assert_nothing_told(store_site.ask(f"/{token}"))
    assert_nothing_told(store_site.ask(f"/docs?token={token}"))


def test_the_token_cannot_be_guessed(corpus: Path) -> None:
    with serving(open_subject(str(corpus))) as one, serving(open_subject(str(corpus))) as other:
        assert one.token != other.token and len(one.token) >= 22


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "localhost:1", "0.0.0.0:{port}", ""]
)
def test_nothing_is_told_to_another_host_name(store_site: Site, host: str) -> None:
    assert_nothing_told(store_site.get(Host=host.format(port=store_site.server.server_port)))


def test_nothing_is_told_without_a_host_name_or_with_two(store_site: Site) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", store_site.server.server_port, timeout=60)
    for hosts in ([], [store_site.server.hosts[0], "evil.example"]):
        connection.putrequest("GET", f"/{store_site.server.token}/", skip_host=True)
        for host in hosts:
            connection.putheader("Host", host)
        connection.endheaders()
        assert connection.getresponse().status == 403
        connection.close()


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_both_names_of_this_machine_are_answered(store_site: Site, name: str) -> None:
    host = f"{name}:{store_site.server.server_port}"
    assert store_site.get(Host=host, Origin=f"http://{host}").status == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1", "https://127.0.0.1:{port}", ""])
def test_nothing_is_told_to_another_origin(store_site: Site, origin: str) -> None:
    assert_nothing_told(store_site.get(Origin=origin.format(port=store_site.server.server_port)))


@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
def test_nothing_is_told_to_a_page_of_another_site(store_site: Site, site: str) -> None:
    assert_nothing_told(store_site.get(Sec_Fetch_Site=site))


@pytest.mark.parametrize("site", ["none", "same-origin"])
def test_links_of_its_own_and_typed_addresses_are_answered(store_site: Site, site: str) -> None:
    assert store_site.get(Sec_Fetch_Site=site).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "NONSENSE"])
def test_nothing_can_be_changed(store_site: Site, method: str) -> None:
    assert_nothing_told(store_site.get(method=method), 405)


def test_head_is_a_page_without_its_text(store_site: Site) -> None:
    page = store_site.get(method="HEAD")
    assert (page.status, page.text) == (200, "") and int(page.headers["content-length"]) > 1000


def test_every_page_is_told_to_fetch_and_keep_nothing(store_site: Site) -> None:
    headers = store_site.get().headers
    assert headers["cache-control"] == "no-store" and headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff" and headers["cross-origin-resource-policy"] == "same-origin"
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy and headers["server"].strip() == "gristmill"


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "docs/../../x", "manifest.json", "train/shard-00000.bin", "doc/0"],
)
def test_no_address_is_the_path_of_a_file(store_site: Site, name: str) -> None:
    page = store_site.get(name)
    assert page.status == 404 and "There is no such page here." in page.text


@pytest.mark.parametrize(
    "name",
    ["docs?store=/etc", "doc?n=-1", "doc?n=999999999", "doc?store=9&n=0", "doc?n=1e3", "docs?first=x", "doc?part=%00",
     "field?field=../../x&value=1", "search?q=a&store=-1"],
)  # fmt: skip
def test_values_that_name_nothing_are_said_to(store_site: Site, name: str) -> None:
    page = store_site.get(name)
    assert page.status == 404 and "Not shown" in page.text


def test_ids_and_fields_are_looked_up_as_they_are(store_site: Site) -> None:
    for name in ("find?id=../../etc/passwd", "find?id=%2Fetc%2Fpasswd"):
        page = store_site.get(name)
        assert page.status == 404 and "root:" not in page.text


def test_too_many_values_are_refused(store_site: Site) -> None:
    assert_nothing_told(store_site.get("docs?" + "&".join(f"a{i}=1" for i in range(50))), 400)
    assert_nothing_told(store_site.get("docs?" + "a" * 60_000))


def test_it_listens_on_this_machine_alone(store_site: Site) -> None:
    assert store_site.server.socket.getsockname()[0] == "127.0.0.1"


def test_a_port_that_is_taken_or_none_is_said(corpus: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port={port} cannot be used"), serving(open_subject(str(corpus)), port):
            pass
    with pytest.raises(ConfigError, match="65,535"), serving(open_subject(str(corpus)), 65_536):
        pass


def hear_interrupts() -> None:
    """What a shell starts in the background ignores SIGINT, and so does all that comes of it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.parametrize(("number", "word"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")])
def test_the_command_prints_its_address_and_ends_when_told_to(corpus: Path, number: int, word: str) -> None:
    command = [sys.executable, "-m", "gristmill", "view", str(corpus), "--no-browser"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, preexec_fn=hear_interrupts) as running:
        assert running.stdout is not None and running.stderr is not None
        assert str(corpus) in running.stdout.readline()
        address = running.stdout.readline().strip()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/[\w-]{22}/)", address)
        assert found, address
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=60)
        connection.request("GET", found[2])
        assert connection.getresponse().status == 200
        connection.close()
        os.kill(running.pid, number)
        said = running.stderr.read()
        assert running.wait() == 128 + number
    assert said == f"gristmill: {word}. The page is closed, and its address leads nowhere any more.\n"
