"""The webhook server as a process of its own, and the configurations that lead to it."""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
import sys
from types import TracebackType
from typing import Any


class WebhookServer:
    """Runs while the block runs."""

    def __enter__(self) -> WebhookServer:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.webhook_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        port, self._bundle = self._process.stdout.readline().split()
        self._port = int(port)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=30)

    def seen(self) -> dict[str, int]:
        """``connections`` and ``requests`` so far; asking is itself one connection."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, context=context)
        connection.request("GET", "/")
        found: dict[str, int] = json.load(connection.getresponse())
        connection.close()
        found["connections"] -= 1
        return found

    def configuration(self, kind: str, path: str, namespace: str) -> dict[str, Any]:
        """A configuration named like the namespace whose objects it concerns."""
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": namespace},
            "webhooks": [
                {
                    "name": f"{path}.bench.example",
                    "clientConfig": {"url": f"https://127.0.0.1:{self._port}/{path}", "caBundle": self._bundle},
                    "rules": [rule],
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                    "timeoutSeconds": 10,
                }
            ],
        }
