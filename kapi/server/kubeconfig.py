"""The administrator's kubeconfig."""

from __future__ import annotations

import base64
from pathlib import Path

import yaml

from kapi.server.pki import Files, write_private


def write_admin(path: Path, url: str, ca: bytes, files: Files) -> None:
    """Writes a kubeconfig with the generated client certificate.  ``ca`` verifies the serving certificate."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kapi", "cluster": {"server": url, "certificate-authority-data": _data(ca)}}],
        "users": [
            {
                "name": "admin",
                "user": {
                    "client-certificate-data": _data(files.admin.read_bytes()),
                    "client-key-data": _data(files.admin_key.read_bytes()),
                },
            }
        ],
        "contexts": [{"name": "kapi", "context": {"cluster": "kapi", "user": "admin"}}],
        "current-context": "kapi",
    }
    write_private(path, yaml.safe_dump(document, sort_keys=False).encode())


def _data(content: bytes) -> str:
    return base64.b64encode(content).decode()
