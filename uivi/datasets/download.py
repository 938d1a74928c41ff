"""Downloads into memory: tries every mirror several times and writes nothing to disk."""

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import TypeVar

from uivi.datasets.records import DataError

T = TypeVar("T")

TRIES = 3
BACKOFF = 1.0
"""Seconds before the second try. The third waits twice as long."""
TIMEOUT = 30.0
"""Seconds to wait for an answer."""
CHUNK = 1 << 18
PASSING = (408, 425, 429)
"""HTTP errors that may pass (timeout, too early, too many requests). All other 4xx are final."""


def download(
    urls: tuple[str, ...], label: str, accept: Callable[[bytes], T], *, most_bytes: int, progress: bool
) -> T:
    """Returns `accept` of the first download that it does not reject.

    Args:
        urls: mirrors, each tried up to `TRIES` times, in this order.
        label: text beside the progress bar.
        accept: parses and checks the bytes. If it raises a `DataError`, the mirror is not tried again.
        most_bytes: size beyond which a download is broken off. Its mirror is not tried again.
        progress: whether to show a progress bar if standard error is a terminal.

    Raises:
        DataError: if every mirror failed, with the reason of each.
    """
    faults: dict[str, str] = {}
    left = list(urls)
    for attempt in range(TRIES):
        if attempt and left:
            time.sleep(BACKOFF * 2 ** (attempt - 1))
        for url in tuple(left):
            try:
                return accept(_get(url, label, most_bytes, progress=progress))
            except urllib.error.HTTPError as error:
                faults[url] = f"the server answered {error.code} {error.reason}"
                error.close()
                if 400 <= error.code < 500 and error.code not in PASSING:
                    left.remove(url)
            except DataError as error:
                faults[url] = str(error)
                left.remove(url)
            except (OSError, http.client.HTTPException) as error:
                faults[url] = _reason(error)
    raise DataError("; ".join(f"{url}: {fault}" for url, fault in faults.items()))


def _reason(error: Exception) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__


def _get(url: str, label: str, most_bytes: int, *, progress: bool) -> bytes:
    # Imported here, so that `import uivi` does not wait for it.
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    request = urllib.request.Request(url, headers={"User-Agent": "uivi"})
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    hidden = not (progress and console.is_terminal)
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        # Before the server is reached, which may take long: the bar moves in the meantime.
        task = bar.add_task(label, total=None)
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            length = response.headers.get("Content-Length")
            total = int(length) if length is not None and length.isdigit() else None
            if total is not None and total > most_bytes:
                raise DataError(f"expected at most {most_bytes:,} bytes, the server announces {total:,}")
            bar.update(task, total=total)
            received = bytearray()
            while chunk := response.read(CHUNK):
                received += chunk
                if len(received) > most_bytes:
                    raise DataError(f"expected at most {most_bytes:,} bytes, the server sends more")
                bar.update(task, completed=len(received))
    if total is not None and len(received) != total:
        raise OSError(f"the connection ended after {len(received):,} of {total:,} bytes")
    return bytes(received)
