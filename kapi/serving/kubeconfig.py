"""The administrator's kubeconfig."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from kapi.serving.pki import Files, write_private

#: a template, since importing the YAML library would delay the start
_TEXT = """\
apiVersion: v1
kind: Config
clusters:
- name: kapi
  cluster:
    server: {url}
    certificate-authority-data: {ca}
users:
- name: admin
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: kapi
  context:
    cluster: kapi
    user: admin
current-context: kapi
"""


def write_admin(path: Path, url: str, ca: bytes, files: Files) -> None:
    """Writes a kubeconfig with the generated client certificate.  ``ca`` verifies the serving certificate."""
    text = _TEXT.format(
        url=json.dumps(url),
        ca=_data(ca),
        certificate=_data(files.admin.read_bytes()),
        key=_data(files.admin_key.read_bytes()),
    )
    write_private(path, text.encode())


def _data(content: bytes) -> str:
    return base64.b64encode(content).decode()
