"""Webhook configurations and policies in files of the server instead of the API (KEP-5793).

Requests cannot change them, they are in force before the first request, and they apply to requests for the configurations in the
API, too.  Upstream: apiserver ``admission/plugin/manifest``, ``admission/plugin/{webhook,policy}/manifest``.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path as FilePath

from twisted.logger import Logger

from kapi.admission.initializer import Initializer
from kapi.codecs.reading import read_body
from kapi.machinery.field import Path, forbidden, invalid
from kapi.machinery.golang import quote
from kapi.machinery.gvk import GroupVersionKind
from kapi.machinery.meters import hashed
from kapi.machinery.status import StatusError
from kapi.machinery.time import stamp
from kapi.machinery.tree import Object, Tree
from kapi.resources.admissionregistration import policies, webhooks
from kapi.resources.definition import Resource, StrategyContext
from kapi.schema.builtin import type_of
from kapi.schema.decode import decode

GATE = "ManifestBasedAdmissionControlConfig"
FIELD = "staticManifestsDir"
_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
_BETWEEN_DOCUMENTS = re.compile(rb"^---[ \t]*$", re.M)
_LIST = ("v1", "List")
_ANY = GroupVersionKind("", "", "")  # the document has its own kind
log = Logger()


def manifests_of(
    plugin: str, initializer: Initializer, configuration: Tree, rows: Sequence[Resource]
) -> Manifests | None:
    """The objects of ``rows`` in the directory that a plugin's configuration names, if it does.

    Raises ValueError with a text for the operator.
    """
    given = (configuration or {}).get(FIELD) or ""
    if not given:
        return None
    here, why = Path(FIELD), ""
    if not initializer.feature(GATE):
        raise ValueError(str(forbidden(here, f"{FIELD} requires the {GATE} feature gate to be enabled")))
    if not os.path.isabs(given):
        why = "must be an absolute file path"
    elif not os.path.exists(given):
        why = f"unable to read: stat {given}: no such file or directory"
    elif not os.path.isdir(given):
        why = "must be a directory"
    if why:
        raise ValueError(str(invalid(here, given, why)))
    return Manifests(plugin, initializer, FilePath(given), rows)


class Manifests:
    """The objects of a plugin, from the last time when all files could be read.  ``rows``: the rows of their kinds."""

    def __init__(
        self,
        plugin: str,
        initializer: Initializer,
        directory: FilePath,
        rows: Sequence[Resource],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._plugin, self.directory, self._clock = plugin, directory, clock
        self._initializer = initializer
        self._rows = {(f"{row.group}/{row.version}", row.kind): row for row in rows}
        self._objects: dict[str, list[Object]] = {}
        #: the version of the files' content; Source reads it like the changes of a lister
        self.changes = "unread"
        self._load()

    def of(self, row: Resource) -> list[Object]:
        """The objects by name; each has the version of the files as its resourceVersion."""
        return self._objects.get(row.plural, [])

    def reload(self) -> None:
        """Reads files that have changed.  When one has an error, the previous objects stay in force."""
        try:
            self._load()
        except ValueError as error:
            if self._initializer.meter is not None:
                self._initializer.meter.manifests.failed(self._plugin)
            log.error("{plugin}: not reloading {path}: {why}", plugin=self._plugin, path=self.directory, why=error)

    def _load(self) -> None:
        """Raises ValueError."""
        try:
            content = [(path, path.read_bytes()) for path in self._files()]
        except OSError as error:
            raise ValueError(f"failed to read manifest directory {quote(str(self.directory))}: {error}") from None
        read = b"".join(data + b"\0" for _, data in content if data)
        digest = hashed(read)
        if digest == self.changes:
            return
        found: dict[str, dict[str, Object]] = {}
        for path, data in content:
            try:
                for document in _BETWEEN_DOCUMENTS.split(data):
                    if document.strip():
                        for obj in _items(read_body(document, "application/yaml", _ANY)):
                            self._add(obj, str(path), digest, found)
            except (ValueError, StatusError) as error:
                raise ValueError(f"error loading {path}: {error}") from None
        _check_references(found)
        self._objects = {plural: [objects[name] for name in sorted(objects)] for plural, objects in found.items()}
        self.changes = digest
        if self._initializer.meter is not None:
            self._initializer.meter.manifests.succeeded(read, self._plugin)
        log.info("{plugin}: loaded {path}", plugin=self._plugin, path=self.directory)

    def _files(self) -> list[FilePath]:
        return sorted(path for path in self.directory.iterdir() if path.suffix.lower() in _SUFFIXES and path.is_file())

    def _add(self, given: Object, path: str, digest: str, found: dict[str, dict[str, Object]]) -> None:
        """Raises ValueError, StatusError."""
        row = self._rows.get((str(given.get("apiVersion")), str(given.get("kind"))))
        if row is None:
            kind = f"{given.get('apiVersion')}, Kind={given.get('kind')}"
            raise ValueError(f"unsupported resource type {kind}")
        kind_ = row.group_version_kind
        obj = decode(given, kind_, type_of(kind_), "Strict", lambda text: None)
        metadata = obj.setdefault("metadata", {})
        name = metadata.get("name") or ""
        known = found.setdefault(row.plural, {})
        if not name:
            raise ValueError(f"resource in file {quote(path)} must have a name")
        if not name.endswith(webhooks.STATIC_SUFFIX):
            suffix = quote(webhooks.STATIC_SUFFIX)
            raise ValueError(f"{quote(name)} in file {quote(path)} must have a name ending with {suffix}")
        if name in known:
            raise ValueError(f"duplicate name {quote(name)} found in file {quote(path)}")
        row.strategy.default(obj)
        features = {**self._initializer.features, GATE: False}  # only the API reserves the suffix
        context = StrategyContext("", name, now=stamp(int(self._clock())), features=features)
        metadata["creationTimestamp"] = context.now
        if errors := row.strategy.validate(obj, context):
            raise ValueError(f"{row.kind} {quote(name)}: {'; '.join(map(str, errors))}")
        _check(row, name, obj, path)
        metadata["resourceVersion"] = digest
        known[name] = obj


def _items(document: Tree) -> list[Object]:
    """The objects in a document.  Raises ValueError."""
    if not isinstance(document, dict):
        raise ValueError("Object 'Kind' is missing")
    if (document.get("apiVersion"), document.get("kind")) != _LIST:
        return [document]
    return [each for item in document.get("items") or () for each in _items(item)]


def _check(row: Resource, name: str, obj: Object, path: str) -> None:
    """Refuses objects that would need the API.  Raises ValueError."""
    spec = obj.get("spec") or {}
    for hook in obj.get("webhooks") or ():
        client = hook.get("clientConfig") or {}
        where = f"webhook {quote(hook.get('name', ''))} in {quote(name)} (file {quote(path)}): clientConfig"
        if client.get("service") is not None:
            text = "service is not supported for static manifests; use clientConfig.url instead"
            raise ValueError(f"{where}.{text}")
    if spec.get("paramKind") is not None:
        raise ValueError(f"{row.kind} {quote(name)}: spec.paramKind is not supported for static manifests")
    if row.kind.endswith("Binding"):
        policy = spec.get("policyName") or ""
        if not policy.endswith(webhooks.STATIC_SUFFIX):
            suffix = quote(webhooks.STATIC_SUFFIX)
            raise ValueError(f"binding {quote(name)}: spec.policyName {quote(policy)} must end with {suffix}")
        if spec.get("paramRef") is not None:
            raise ValueError(f"binding {quote(name)}: spec.paramRef is not supported for static manifests")


def _check_references(found: dict[str, dict[str, Object]]) -> None:
    """Raises ValueError when a binding's policy is not in the files."""
    for row, bindings in policies.BINDINGS.items():
        known = found.get(row, {})
        for name, binding in found.get(bindings, {}).items():
            policy = binding["spec"]["policyName"]
            if policy not in known:
                text = f"references policy {quote(policy)} which does not exist in the manifest directory"
                raise ValueError(f"binding {quote(name)} {text}")
