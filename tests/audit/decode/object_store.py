"""A bucket of an S3-like object store, read-only, on loopback: as much of the protocol as reading folders takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "backup"


@contextmanager
def object_store(content: Path) -> Iterator[str]:
    """Gives the address of the bucket; the files of a folder are its objects."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            key = unquote(asked.path).removeprefix(f"/{BUCKET}").lstrip("/")
            if not key:
                options = parse_qs(asked.query, keep_blank_values=True)
                self._send(200, _listing(content, options.get("prefix", [""])[0], "delimiter" in options).encode())
            elif (content / key).is_file():
                self._send_object((content / key).read_bytes())
            else:
                self._send(404, b"<Error><Code>NoSuchKey</Code></Error>")

        do_HEAD = do_GET

        def _send_object(self, data: bytes) -> None:
            wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            if not wanted:
                self._send(200, data)
                return
            start, end = int(wanted[1]), int(wanted[2] or len(data) - 1)
            part = data[start : end + 1]
            self._send(206, part, {"Content-Range": f"bytes {start}-{start + len(part) - 1}/{len(data)}"})

        def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), "ETag": '"x"', **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in the base class
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        endpoint = f"127.0.0.1:{server.server_address[1]}"
        yield f"s3://key:secret@{BUCKET}?scheme=http&endpoint_override={endpoint}&region=nowhere"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _listing(content: Path, prefix: str, by_folder: bool) -> str:
    keys = sorted(path.relative_to(content).as_posix() for path in content.rglob("*") if path.is_file())
    found: dict[str, str] = {}
    for key in (key for key in keys if key.startswith(prefix)):
        folder, slash, _ = key[len(prefix) :].partition("/")
        if by_folder and slash:
            found[folder] = f"<CommonPrefixes><Prefix>{escape(prefix + folder)}/</Prefix></CommonPrefixes>"
        else:
            size = (content / key).stat().st_size
            found[key] = (
                f"<Contents><Key>{escape(key)}</Key><Size>{size}</Size>"
                "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            )
    body = "".join(found.values())
    return (
        '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(found)}</KeyCount>"
        f"<IsTruncated>false</IsTruncated>{body}</ListBucketResult>"
    )
