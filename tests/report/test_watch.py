"""A run that is watched: the page and nothing else, on this machine alone, and always the newest."""

import http.client
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_report import find, parsed

import product
from pages import Undrawn, make_run
from product import assert_refused, here
from rspo.core import interrupt
from rspo.report import watch
from rspo.report.watch import Server, serving


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("watched") / "run", Undrawn(), 3)


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    """After one of three iterations."""
    run = shutil.copytree(whole, tmp_path / "run")
    for name in ("001", "002"):
        shutil.rmtree(run / "strategies" / name)
    return run


@pytest.fixture
def server(run: Path) -> Iterator[Server]:
    with serving(run) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(
    server: Server, path: str, method: str = "GET", **headers: str
) -> tuple[int, bytes, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content, answer.headers


def cards(page: bytes, tmp_path: Path) -> int:
    (tmp_path / "page.html").write_bytes(page)
    return len(find(parsed(tmp_path / "page.html"), "article", class_="card"))


def test_the_page_shows_strategies_as_they_come(
    server: Server, run: Path, whole: Path, tmp_path: Path
) -> None:
    status, page, headers = ask(server, "/")
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Cache-Control"] == "no-store"
    assert cards(page, tmp_path) == 1
    assert b"1 of 3 strategies so far" in page
    _, before, _ = ask(server, "/version")
    assert f'data-version="{before.decode()}"'.encode() in page
    assert ask(server, "/version")[1] == before
    # As a run writes it: whole, by one rename.
    shutil.copytree(whole / "strategies" / "001", run / "strategies" / ".001.tmp")
    assert ask(server, "/version")[1] == before
    (run / "strategies" / ".001.tmp").rename(run / "strategies" / "001")
    assert ask(server, "/version")[1] != before
    assert cards(ask(server, "/")[1], tmp_path) == 2


def test_nothing_is_written_into_the_folder(server: Server, run: Path) -> None:
    before = product.contents(run)
    ask(server, "/")
    assert product.contents(run) == before


@pytest.mark.parametrize(
    "path",
    [
        "/run.json",
        "/strategies/",
        "/strategies/000/policy.safetensors",
        "/../",
        "/?a=1",
        "*",
        "/%2e%2e/etc/passwd",
        "/report.html",
        "/index.html",
        "/version/",
        "/.",
    ],
)
def test_nothing_else_is_served(server: Server, path: str) -> None:
    status, content, _ = ask(server, path)
    assert status == 404
    assert content == b"There is only the page, at /.\n"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_nothing_can_be_changed(server: Server, method: str) -> None:
    assert ask(server, "/", method)[0] == 501


def test_head_has_no_body(server: Server) -> None:
    status, content, headers = ask(server, "/", "HEAD")
    assert (status, content) == (200, b"")
    assert int(headers["Content-Length"]) > 1000


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "[::1]:1", ""])
def test_a_name_that_leads_here_is_refused(server: Server, host: str) -> None:
    """Else a page of another site could read this one."""
    status, content, _ = ask(server, "/", Host=host)
    assert (status, content) == (403, b"Only for this machine.\n")
    assert ask(server, "/", Host=f"localhost:{server.server_port}")[0] == 200


def test_only_this_machine_is_served(server: Server) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert server.address == f"http://127.0.0.1:{server.server_port}/"


def test_connections_that_say_nothing_are_bounded_and_end(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch._Handler, "timeout", 1.0)
    with serving(run) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        idle = [
            socket.create_connection(("127.0.0.1", made.server_port))
            for _ in range(2 * watch.CONNECTIONS)
        ]
        assert threading.active_count() < watch.CONNECTIONS + 10
        for one in idle:
            one.settimeout(20)
            assert one.recv(1) == b""  # closed, soon or at once
            one.close()
        assert ask(made, "/version")[0] == 200
        made.shutdown()
        thread.join()


def test_a_folder_that_is_damaged_meanwhile_is_said(server: Server, run: Path) -> None:
    metrics = run / "strategies" / "000" / "metrics.jsonl"
    metrics.write_text("changed")
    status, content, headers = ask(server, "/")
    assert status == 503
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert b"metrics.jsonl" in content
    assert b"Traceback" not in content
    shutil.rmtree(run)
    assert ask(server, "/version")[0] == 503


def test_what_cannot_be_watched_is_refused(run: Path, tmp_path: Path) -> None:
    assert_refused(here("watch", tmp_path / "absent"), "absent", "does not exist")
    assert_refused(here("watch", tmp_path), "is not a run of rspo")
    assert_refused(here("watch", run, "--port", "70000"), "port is 70000")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert_refused(here("watch", run, "--port", port), f"Cannot use port {port}", "--port")


def test_the_command_ends_with_control_c(run: Path) -> None:
    command = [sys.executable, "-m", "rspo", "watch", str(run)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=product.environment(),
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        address = line.split()[3]
        assert address.startswith("http://127.0.0.1:")
        port = int(address.rstrip("/").rpartition(":")[2])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("GET", "/")
        assert connection.getresponse().status == 200
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (interrupt.CODE, "", "")
