"""Certificates for servers on loopback; the `openssl` command makes them."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

__all__ = ["certificates", "needs_openssl", "server_context"]

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


def certificates(folder: Path, name: str = "server") -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that is its own authority, and its key."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key]
    names = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        ["openssl", "req", "-x509", *new_key, "-out", certificate, "-days", "2", *names],
        check=True,
        capture_output=True,
    )
    return certificate, key


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """For a server with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
