"""Fixtures: a local web server, and empty data and cache directories."""

import contextlib
import http.server
import threading

import pytest

from tests.datasets.samples import sample
from uivi.datasets import DATASETS, download


class Server:
    """Serves `bodies`, after the `faults` of a path: one per request, a status or a number of bytes."""

    def __init__(self):
        self.bodies: dict[str, bytes] = {}
        self.faults: dict[str, list[tuple[str, int]]] = {}
        self.asked: list[str] = []
        self.announce = True
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.answer(self)

            def log_message(self, *args):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def answer(self, request):
        self.asked.append(request.path)
        kind, number = (self.faults.get(request.path) or [("", 0)]).pop(0)
        body = self.bodies.get(request.path)
        if kind == "status" or body is None:
            request.send_error(number or 404)
            return
        request.send_response(200)
        if self.announce:
            request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        with contextlib.suppress(ConnectionError):  # the client may have had enough
            request.wfile.write(body[:number] if kind == "cut" else body)


@pytest.fixture
def server():
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.http.shutdown()
    thread.join()
    server.http.server_close()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Removes the waiting between tries, and any proxy in front of the local server."""
    monkeypatch.setattr(download, "BACKOFF", 0.0)
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.delenv("UIVI_DATA", raising=False)
    monkeypatch.setenv("UIVI_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def local(monkeypatch, tmp_path, cache):
    path = tmp_path / "data"
    path.mkdir()
    monkeypatch.setenv("UIVI_DATA", str(path))
    return path


@pytest.fixture
def install(monkeypatch):
    """Puts the small version of a data set into the table, and its files into a directory if one is given."""

    def put(name, base="http://127.0.0.1:9", directory=None):
        made = sample(name, base)
        monkeypatch.setitem(DATASETS, name, made.spec)
        for path, body in made.files.items() if directory else ():
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / path).write_bytes(body)
        return made

    return put


@pytest.fixture
def serve(install, server):
    """Installs a data set and puts its files on both mirrors of the server."""

    def put(name):
        made = install(name, server.url)
        server.bodies |= {f"/{mirror}/{file}": body for mirror in "ab" for file, body in made.served.items()}
        return made

    return put


def files_in(directory) -> list[str]:
    """Returns every file below a directory, also hidden ones."""
    return sorted(p.relative_to(directory).as_posix() for p in directory.rglob("*") if p.is_file())
