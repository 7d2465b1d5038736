"""The OpenAPI documents of the servers behind APIServices (upstream: kube-aggregator ``controllers/openapi``, ``openapiv3``)."""

from __future__ import annotations

import hashlib
import re

from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IReactorTime

from kapi.aggregator.asking import Questions
from kapi.client.workqueue import WorkQueue
from kapi.codecs import json_pieces
from kapi.endpoints.openapi.remote import RemoteDocuments
from kapi.machinery.gvk import GroupVersion
from kapi.machinery.tree import Tree

WORKERS = 2
TIMEOUT = 10.0  # seconds for a document
MAX_DOCUMENTS = 256  # of one server
_DIGEST = re.compile(r"[0-9A-Za-z]+").fullmatch  # what may stand in our URLs and headers
MAX_BYTES = 64 * 1024 * 1024  # of all documents of one server


class OpenAPIDownload:
    """Keeps ``documents``: all that a server lists under ``/openapi/v3``, and the paths of its group version of v2."""

    def __init__(self, reactor: IReactorTime, questions: Questions, documents: RemoteDocuments) -> None:
        self._questions = questions
        self._remote = documents
        self._wanted: dict[str, GroupVersion] = {}  # by the APIService's name
        self._keys: dict[str, set[str]] = {}  # documents of v3 that came from its server
        self._queue: WorkQueue[str] = WorkQueue(reactor, "apiservice openapi", self._sync, WORKERS)

    def look_at(self, name: str, gv: GroupVersion) -> None:
        """The server of an APIService can be asked; one that has a new document is asked for it."""
        self._wanted[name] = gv
        self._queue.add(name)

    def forget(self, name: str) -> None:
        self._wanted.pop(name, None)
        for key in self._keys.pop(name, ()):
            self._remote.documents.pop(key, None)
        self._remote.forget(name)

    def stop(self) -> None:
        self._queue.stop()

    async def _sync(self, name: str) -> None:
        """Having no document is no fault of a server: it is asked again when it was probed again."""
        gv = self._wanted.get(name)
        if gv is None:
            return
        known = name in self._keys
        changed = await self._read_v3(name, gv)
        if changed or not known:
            document = await self._read(name, "/openapi/v2")
            if document is not None and self._wanted.get(name) == gv:
                try:
                    self._remote.specify(name, f"/apis/{gv}/", json_pieces.loads(document))
                except Exception:  # whatever a server may say
                    self._remote.forget(name)

    async def _read_v3(self, name: str, gv: GroupVersion) -> bool:
        """Whether the server documents something new, or nothing at all in this form."""
        index = await self._read(name, "/openapi/v3")
        if self._wanted.get(name) != gv:
            return False
        urls = _urls(index, f"apis/{gv}")
        documents, mine = self._remote.documents, self._keys.setdefault(name, set())
        for key in mine - {key for key, _ in urls}:
            del documents[key]
            mine.discard(key)
        space = MAX_BYTES - sum(len(documents[key][1]) for key in mine)
        changed = not urls
        for key, url in urls:
            digest = url.partition("hash=")[2]
            digest = digest if _DIGEST(digest) else ""
            if key in documents and (key not in mine or (digest and documents[key][0] == digest)):
                continue  # another server's, or as it was
            body = await self._read(name, url)
            if self._keys.get(name) is not mine:
                return False  # forgotten meanwhile
            if body is None or key in documents and key not in mine:
                continue
            before = len(documents[key][1]) if key in documents else 0
            if len(body) > space + before:
                continue
            space += before - len(body)
            changed = True
            documents[key] = (digest or hashlib.sha512(body).hexdigest().upper(), body)
            mine.add(key)
        return changed

    async def _read(self, name: str, path: str) -> bytes | None:
        """A JSON document, or None."""
        try:
            code, body = await self._questions.get(name, path, TIMEOUT)
            json_pieces.loads(body)
        except CancelledError:
            raise
        except Exception:  # whatever the network and the server do
            return None
        return body if code == 200 else None


def _urls(index: bytes | None, first: str) -> list[tuple[str, str]]:
    """Where a server says that its documents are; that of the group version ``first`` at the head."""
    try:
        paths: Tree = json_pieces.loads(index or b"{}")["paths"]
        found = [(key, item["serverRelativeURL"]) for key, item in paths.items()]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []
    found = [(key, url) for key, url in found if isinstance(url, str) and url.startswith("/")]
    found.sort(key=lambda pair: (pair[0] != first, pair[0]))
    return found[:MAX_DOCUMENTS]
