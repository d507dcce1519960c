"""Serves a run's page while it trains, on 127.0.0.1 only, rebuilt whenever the run folder changes.
Nothing but the page is served."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

from rspo.errors import InputError, RspoError
from rspo.report.page import run_page
from rspo.report.reading import read_run
from rspo.runs import manifest, store

HOME = "127.0.0.1"
CONNECTIONS = 16  # simultaneous; a browser opens six
SECONDS = 10.0  # before an idle connection is closed
HTML, TEXT = "text/html; charset=utf-8", "text/plain; charset=utf-8"
SHOWN = (".svg", ".png", ".json")  # files besides the strategies that a page uses
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


class Watched:
    """A run folder and its page, built once for each state of the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made: tuple[str, bytes] | None = None
        self.making = threading.Lock()
        manifest.read_manifest(folder)

    def version(self) -> str:
        """A value that changes with the page: when a strategy, a picture or the settings
        change."""
        files = [n for n in store.names(self.folder, links=True) if n.endswith(SHOWN)]
        settings = store.sha256(store.read(self.folder / "run.json"))
        return store.sha256("\n".join(manifest.finished(self.folder) + files + [settings]).encode())

    def page(self) -> bytes:
        with self.making:
            version = self.version()
            if self.made is None or self.made[0] != version:
                self.made = version, run_page(read_run(self.folder), watched=version).encode()
            return self.made[1]


class Server(http.server.ThreadingHTTPServer):
    """On this machine only, with at most `CONNECTIONS` threads."""

    daemon_threads = True
    request_queue_size = CONNECTIONS

    def __init__(self, watched: Watched, port: int) -> None:
        self.free = threading.BoundedSemaphore(CONNECTIONS)
        super().__init__((HOME, port), partial(_Handler, watched))

    @property
    def address(self) -> str:
        return f"http://{HOME}:{self.server_port}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        if self.free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that disconnects early is not an error."""


class _Handler(http.server.BaseHTTPRequestHandler):
    timeout = SECONDS
    server: Server

    def __init__(self, watched: Watched, *arguments: Any) -> None:
        self.watched = watched
        super().__init__(*arguments)

    def do_GET(self) -> None:
        status, kind, content = self._answer()
        self.send_response(status)
        for name, value in {"Content-Type": kind, **HEADERS}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_HEAD = do_GET

    def _answer(self) -> tuple[HTTPStatus, str, bytes]:
        # Against DNS rebinding: another site must not read this page by a name that resolves here.
        port = self.server.server_port
        if self.headers.get("Host") not in (f"{HOME}:{port}", f"localhost:{port}"):
            return HTTPStatus.FORBIDDEN, TEXT, b"Only for this machine.\n"
        make = {"/": self.watched.page, "/version": lambda: self.watched.version().encode()}
        if self.path not in make:
            return HTTPStatus.NOT_FOUND, TEXT, b"There is only the page, at /.\n"
        try:
            return HTTPStatus.OK, HTML if self.path == "/" else TEXT, make[self.path]()
        except RspoError as error:
            return HTTPStatus.SERVICE_UNAVAILABLE, TEXT, f"{error}\n".encode()

    def version_string(self) -> str:
        return "rspo"

    def log_message(self, format: str, *arguments: Any) -> None:
        """Print nothing: the terminal is for the run."""


@contextmanager
def serving(folder: Path, port: int = 0) -> Iterator[Server]:
    """A server that is ready; `port` 0 takes a free one."""
    if not 0 <= port < 2**16:
        raise InputError(f"port is {port}, but it must be from 0 (any free one) to {2**16 - 1}.")
    watched = Watched(folder)
    try:
        server = Server(watched, port)
    except OSError as error:
        raise InputError(
            f"Cannot use port {port}: {error.strerror or error}. Choose another with --port, or "
            "leave it out for any free one."
        ) from error
    with server:
        yield server
