"""The OpenAPI documents of the servers behind APIServices (upstream: kube-aggregator ``controllers/openapi``, ``openapiv3``)."""

from __future__ import annotations

import hashlib
import re

from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IReactorTime

from kapi.codecs import json_pieces
from kapi.endpoints.openapi.remote import RemoteDocuments
from kapi.machinery.gvk import GroupVersion
from kapi.machinery.tree import Tree
from kapi.request.packed import packed
from kapi.runtime.workqueue import WorkQueue
from kapi.servers.aggregator.backend import BackendClient

WORKERS = 2
TIMEOUT_SECONDS = 10.0  # for one document
MAX_DOCUMENTS = 256  # of one server
_DIGEST = re.compile(r"[0-9A-Za-z]+").fullmatch  # allowed in URLs and headers
MAX_BYTES = 64 * 1024 * 1024  # of all documents of one server


class _Away(Exception):
    """The server did not answer, or cannot be asked now.  Its known documents stay until the next probe, as upstream."""


class OpenAPIDownload:
    """Updates ``documents``: the documents that a server lists under ``/openapi/v3``, and its paths of ``/openapi/v2``."""

    def __init__(self, reactor: IReactorTime, backend_client: BackendClient, documents: RemoteDocuments) -> None:
        self._backend_client = backend_client
        self._remote = documents
        self._services: dict[str, GroupVersion] = {}  # by the APIService's name
        self._keys: dict[str, set[str]] = {}  # documents of v3 that came from its server
        self._queue: WorkQueue[str] = WorkQueue(reactor, "apiservice openapi", self._sync, WORKERS)

    def enqueue(self, name: str, gv: GroupVersion) -> None:
        """Call it after each successful probe: reads the documents of the server that are new."""
        self._services[name] = gv
        self._queue.add(name)

    def forget(self, name: str) -> None:
        self._services.pop(name, None)
        for key in self._keys.pop(name, ()):
            self._remote.documents.pop(key, None)
        self._remote.forget(name)

    def stop(self) -> None:
        self._queue.stop()

    async def _sync(self, name: str) -> None:
        """Reads the documents of a server.  Missing ones are no error; the next probe tries again."""
        gv = self._services.get(name)
        if gv is None:
            return
        known = name in self._keys
        changed = await self._read_v3(name, gv)
        if changed or not known:
            document = await self._read_now(name, "/openapi/v2")
            if document is not None and self._services.get(name) == gv:
                try:
                    self._remote.specify(name, f"/apis/{gv}/", json_pieces.loads(document))
                except Exception:  # the server may send anything
                    self._remote.forget(name)

    async def _read_v3(self, name: str, gv: GroupVersion) -> bool:
        """Reads the documents of v3; True when one is new, or when the server has none."""
        try:
            index = await self._read(name, "/openapi/v3")
        except _Away:
            return False
        if self._services.get(name) != gv:
            return False
        urls = _urls(index, gv)
        documents, mine = self._remote.documents, self._keys.setdefault(name, set())
        for key in mine - {key for key, _ in urls}:
            del documents[key]
            mine.discard(key)
        space = MAX_BYTES - sum(documents[key][1].size for key in mine)
        changed = not urls
        for key, url in urls:
            digest = url.partition("hash=")[2]
            digest = digest if _DIGEST(digest) else ""
            if key in documents and (key not in mine or (digest and documents[key][0] == digest)):
                continue  # the document of another server, or unchanged
            body = await self._read_now(name, url)
            if self._keys.get(name) is not mine:
                return False  # forgotten meanwhile
            if body is None or key in documents and key not in mine:
                continue
            before = documents[key][1].size if key in documents else 0
            if len(body) > space + before:
                continue
            space += before - len(body)
            changed = True
            documents[key] = (digest or hashlib.sha512(body).hexdigest().upper(), packed(body))
            mine.add(key)
        return changed

    async def _read_now(self, name: str, path: str) -> bytes | None:
        """A JSON document; None when there is none, or when it is not available now."""
        try:
            return await self._read(name, path)
        except _Away:
            return None

    async def _read(self, name: str, path: str) -> bytes | None:
        """A JSON document; None when there is none.  Raises _Away."""
        try:
            code, body, *_ = await self._backend_client.ask(name, path, TIMEOUT_SECONDS)
        except CancelledError:
            raise
        except Exception as error:  # any error of the network
            raise _Away from error
        if code == 429 or code >= 500:
            raise _Away
        try:
            json_pieces.loads(body)
        except Exception:  # the server may send anything
            return None
        return body if code == 200 else None


def _urls(index: bytes | None, gv: GroupVersion) -> list[tuple[str, str]]:
    """(key, URL) of a server's documents, first the document of the group version.

    Documents of other group versions are left out: the server may have them from this server.  Two servers that aggregate each
    other would keep the documents of a deleted definition for ever, each because the other has them.
    """
    first = f"apis/{gv}"
    try:
        paths: Tree = json_pieces.loads(index or b"{}")["paths"]
        found = [(key, item["serverRelativeURL"]) for key, item in paths.items()]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []
    found = [(key, url) for key, url in found if isinstance(url, str) and url.startswith("/") and _is_of(key, gv)]
    found.sort(key=lambda pair: (pair[0] != first, pair[0]))
    return found[:MAX_DOCUMENTS]


def _is_of(key: str, gv: GroupVersion) -> bool:
    """Whether a document is not one of another group version, nor of another group."""
    root, *parts = key.split("/")
    return root != "api" and (root != "apis" or parts in ([], [gv.group], [gv.group, gv.version]))
