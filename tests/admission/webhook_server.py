"""An HTTPS webhook server in the test's process: hooks are functions by path; what they were asked is kept."""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from kapi.machinery.tree import Object
from tests.admission.certificates import make_certificate

Hook = Callable[[Object], Object]  # the request of a review -> the response, uid aside


class WebhookServer:
    def __init__(self, **hooks: Hook) -> None:
        self.asked: list[tuple[str, Object]] = []  # path without slash, request
        certificate, key = make_certificate("127.0.0.1")
        self.bundle = base64.b64encode(certificate).decode()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
                name = self.path.partition("?")[0][1:]
                outer.asked.append((name, request))
                response = {"uid": request["uid"], "allowed": True, **hooks[name](request)}
                review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
                body = json.dumps(review).encode()
                try:
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    pass  # the caller has given up

            def log_message(self, *words: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.NamedTemporaryFile() as file:
            Path(file.name).write_bytes(certificate + key)
            context.load_cert_chain(file.name)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def webhook(self, path: str, rule: Object, **more: Any) -> Object:
        return {
            "name": f"{path}.example.com",
            "clientConfig": {
                "url": f"https://127.0.0.1:{self._server.server_address[1]}/{path}",
                "caBundle": self.bundle,
            },
            "rules": [{"operations": ["CREATE"], **rule}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **more,
        }

    def requests(self, path: str) -> list[Object]:
        return [request for name, request in self.asked if name == path]


def patch(*operations: Object) -> Object:
    """The part of a response that patches."""
    return {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(operations).encode()).decode()}
