"""Certificates for tests, made with openssl: an authority, and certificates that it has signed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


class Authority:
    """Signs certificates for 127.0.0.1. Files are in `folder`; without openssl the test is skipped."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("needs openssl")
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.certificate = folder / "ca.pem"
        self._key = folder / "ca.key"
        self._run(
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=authority",
            "-addext", "basicConstraints=critical,CA:TRUE", "-keyout", self._key, "-out", self.certificate,
        )  # fmt: skip

    def sign(self, name: str, host: str = "IP:127.0.0.1,DNS:localhost") -> Path:
        """A PEM file with a key and its certificate chain, as Kafka's PEM keystores have it."""
        key, request, certificate = (self.folder / f"{name}.{kind}" for kind in ("key", "csr", "crt"))
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={host}\n")
        self._run("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        self._run(
            "x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial",
            "-days", "2", "-extfile", extensions, "-out", certificate,
        )  # fmt: skip
        whole = self.folder / f"{name}.pem"
        whole.write_text(key.read_text() + certificate.read_text() + self.certificate.read_text())
        return whole

    def _run(self, *arguments: str | Path) -> None:
        done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
