"""The OpenAPI documents of the servers behind APIServices (upstream: kube-aggregator ``controllers/openapiv3``)."""

from __future__ import annotations

import hashlib

import orjson
from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IReactorTime

from kapi.aggregator.asking import Questions
from kapi.client.workqueue import WorkQueue
from kapi.machinery.gvk import GroupVersion

WORKERS = 2
TIMEOUT = 10.0  # seconds for a document


class OpenAPIDownload:
    """Keeps ``documents``: by the path of a group version, the digest of its document, and the document."""

    def __init__(self, reactor: IReactorTime, questions: Questions, documents: dict[str, tuple[str, bytes]]) -> None:
        self._questions = questions
        self._documents = documents
        self._wanted: dict[str, GroupVersion] = {}  # by the APIService's name
        self._queue: WorkQueue[str] = WorkQueue(reactor, "apiservice openapi", self._sync, WORKERS)

    def look_at(self, name: str, gv: GroupVersion) -> None:
        """The server of an APIService can be asked; one that has a new document is asked for it."""
        self._wanted[name] = gv
        self._queue.add(name)

    def forget(self, name: str, gv: GroupVersion) -> None:
        self._wanted.pop(name, None)
        self._documents.pop(f"apis/{gv}", None)

    def stop(self) -> None:
        self._queue.stop()

    async def _sync(self, name: str) -> None:
        """Having no document is no fault of a server: it is asked again when it was probed again."""
        gv = self._wanted.get(name)
        if gv is None:
            return
        key = f"apis/{gv}"
        try:
            code, body = await self._questions.get(name, "/openapi/v3", TIMEOUT)
            url = orjson.loads(body)["paths"][key]["serverRelativeURL"] if code == 200 else ""
            digest = url.partition("hash=")[2]
            if not url.startswith("/") or (digest and self._documents.get(key, ("",))[0] == digest):
                return
            code, body = await self._questions.get(name, url, TIMEOUT)
            orjson.loads(body)
        except CancelledError:
            raise
        except Exception:  # whatever the network and the server do
            return
        if code == 200 and self._wanted.get(name) == gv:
            self._documents[key] = (digest or hashlib.sha512(body).hexdigest().upper(), body)
