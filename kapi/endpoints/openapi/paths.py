"""The operations of a group version with their parameters, made from resource definitions.

They are made in the form of OpenAPI v3; ``v2`` converts them to OpenAPI v2.  The texts of parameters are upstream's
(``parameters.txt``).  Upstream: apiserver ``endpoints/installer.go``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import ClassVar

import orjson

from kapi.endpoints.openapi.pieces import Make
from kapi.endpoints.openapi.schemas import V3
from kapi.machinery.each import costly
from kapi.machinery.gvk import GroupVersionKind
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, Subresource
from kapi.schema import builtin

TEXTS = Path(__file__).with_name("parameters.txt")
_ANY = "*"  # options that several kinds have in common


@functools.cache
def _known() -> dict[str, dict[str, Object]]:
    """Kind of the options -> name -> parameter."""
    found: dict[str, dict[str, Object]] = {}
    for line in TEXTS.read_text().splitlines():
        if line.startswith("#"):
            continue
        kind, name, type_, *text = line.split(" ", 3)
        description = orjson.loads(text[0]) if text else builtin.descriptions()[_META + kind][name]
        schema = {"type": type_, "uniqueItems": True}
        found.setdefault(kind, {})[name] = {"description": description, "in": "query", "name": name, "schema": schema}
    return found


def query(name: str, kind: str = _ANY) -> Object:
    return _known()[kind][name]


def in_path(name: str, text: str) -> Object:
    schema = {"type": "string", "uniqueItems": True}
    return {"description": text, "in": "path", "name": name, "required": True, "schema": schema}


def of_list() -> list[Object]:
    """ListOptions."""
    names = (
        "allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion",
        "resourceVersionMatch", "sendInitialEvents", "shardSelector", "timeoutSeconds", "watch",
    )  # fmt: skip
    return [query(name) for name in names]


def of_write() -> list[Object]:
    """CreateOptions and UpdateOptions."""
    return [query("dryRun", "DeleteOptions"), query("fieldManager"), query("fieldValidation")]


def of_patch() -> list[Object]:
    """PatchOptions."""
    return [
        query("dryRun", "DeleteOptions"),
        query("fieldManager", "PatchOptions"),
        query("fieldValidation"),
        query("force"),
    ]


def of_delete() -> list[Object]:
    """DeleteOptions."""
    return list(_known()["DeleteOptions"].values())


def of_connection(kind: str) -> list[Object]:
    """The options of a connection (``PodExecOptions``); none for a kind without."""
    return list(_known().get(kind, {}).values())


_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_MEDIA = ("application/json", "application/vnd.kubernetes.protobuf", "application/yaml")
_WATCH_MEDIA = (
    _MEDIA[0], f"{_MEDIA[0]};stream=watch", _MEDIA[1], f"{_MEDIA[1]};stream=watch", _MEDIA[2],
)  # fmt: skip
_CBOR_MEDIA = ("application/cbor", *_MEDIA)
_CBOR_WATCH_MEDIA = ("application/cbor", "application/cbor-seq", *_WATCH_MEDIA)
_PATCHES = (
    "application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)  # fmt: skip
_CBOR_PATCHES = ("application/apply-patch+cbor", *_PATCHES)
_CONNECT = frozenset(["attach", "exec", "portforward", "proxy"])


def group_words(group: str) -> str:
    """A group in operation ids: ``rbac.authorization.k8s.io`` is RbacAuthorization, the core group Core."""
    if not group:
        return "Core"
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[.-]", group.removesuffix(".k8s.io")))


def tag(group: str, version: str) -> str:
    words = group_words(group)
    return f"{words[:1].lower()}{words[1:]}_{version}"


def base_path(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def custom_name(kind: GroupVersionKind) -> str:
    """The definition of a custom resource's kind: its group reversed, then version and kind."""
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


def definition_name(kind: GroupVersionKind, custom: bool = False) -> str | None:
    """The definition of a kind, or None when it has none (options of connections)."""
    found = builtin.names_by_kind().get(kind)
    return custom_name(kind) if found is None and custom else found


def paths(group: str, version: str, resources: Iterable[Resource], cbor: bool = False) -> dict[str, Make]:
    """Path -> a function that makes its item, for all operations of a group version; an item without operations is empty.

    ``cbor``: with that form, which upstream does not name for custom resources.
    """
    return dict(sorted(_items(group, version, resources, cbor)))


def _items(group: str, version: str, resources: Iterable[Resource], cbor: bool) -> Iterator[tuple[str, Make]]:
    base = base_path(group, version)
    rows = list(resources)
    built_in = _CBORMaker if cbor else _Maker
    if not all(row.typed_items for row in rows):  # upstream's server of custom resources does not describe this one
        yield f"{base}/", lambda: {"get": _resources_operation(group, version, built_in.media)}
    for row in costly(rows):
        yield from (_CustomMaker if row.typed_items else built_in)(row).items(base)


def _item(operations: Make, parameters: list[Object]) -> Object:
    """A path item whose operations have these parameters."""
    found = operations()
    return _hoist({**found, "parameters": parameters}) if found else {}


def _hoist(item: Object) -> Object:
    """Parameters that all operations of a path have belong to the path; all are sorted by name."""
    operations = {method: value for method, value in item.items() if method != "parameters"}
    lists = [operation.get("parameters", []) for operation in operations.values()]
    common = [parameter for parameter in lists[0] if all(parameter in other for other in lists[1:])] if lists else []
    hoisted: Object = {}
    for method, operation in operations.items():
        rest = [parameter for parameter in operation.get("parameters", []) if parameter not in common]
        hoisted[method] = {key: value for key, value in operation.items() if key != "parameters"}
        if rest:
            hoisted[method]["parameters"] = _by_name(rest)
    shared = _by_name([*item.get("parameters", []), *common])
    return {**hoisted, "parameters": shared} if shared else hoisted


def _by_name(parameters: list[Object]) -> list[Object]:
    return sorted(parameters, key=lambda parameter: (parameter["name"], parameter["in"]))


def _resources_operation(group: str, version: str, media: tuple[str, ...]) -> Object:
    return {
        "description": "get available resources",
        "operationId": f"get{group_words(group)}{version[:1].upper()}{version[1:]}APIResources",
        "responses": _responses(_META + "APIResourceList", {"200": "OK"}, media),
        "tags": [tag(group, version)],
    }


def _article(noun: str) -> str:
    """The noun with the article that upstream chooses; a plural has none."""
    if noun.endswith("s") and not noun.endswith("ss"):
        return noun
    return f"an {noun}" if noun[:1].lower() in "aeiou" else f"a {noun}"


def _content(name: str | None, media: tuple[str, ...]) -> Object:
    schema: Object = {"$ref": V3 + name} if name else {"type": "string"}
    return {kind: {"schema": schema} for kind in media}


def _responses(name: str | None, codes: dict[str, str], media: tuple[str, ...]) -> Object:
    found: Object = {code: {"content": _content(name, media), "description": text} for code, text in codes.items()}
    found["401"] = {"description": "Unauthorized"}
    return found


class _Maker:
    """The operations of one resource."""

    media: tuple[str, ...] = _MEDIA  # of answers
    list_media: tuple[str, ...] = _WATCH_MEDIA
    body_media: tuple[str, ...] = ("*/*",)
    patches: tuple[str, ...] = _PATCHES
    patch_codes: ClassVar[dict[str, str]] = {"200": "OK", "201": "Created"}
    watched = "or watch "  # in the description of lists

    def __init__(self, row: Resource) -> None:
        self.row = row
        self.kind = row.group_version_kind
        self.name = definition_name(self.kind, row.typed_items)
        self.list_name = definition_name(GroupVersionKind(row.group, row.version, row.list_kind), row.typed_items)
        version = row.version[:1].upper() + row.version[1:]
        self.prefix = group_words(row.group) + version
        self.scope = "Namespaced" if row.namespaced else ""

    def items(self, base: str) -> Iterator[tuple[str, Make]]:
        row = self.row
        within = f"{base}/namespaces/{{namespace}}" if row.namespaced else base
        namespace = [in_path("namespace", "object name and auth scope, such as for teams and projects")]
        shared = [*(namespace if row.namespaced else []), query("pretty")]
        named = [in_path("name", f"name of the {row.kind}"), *shared]
        yield f"{within}/{row.plural}", partial(_item, self._collection, shared)
        if row.namespaced and ("list" in row.verbs or not {"get", "list"} & set(row.verbs)):
            yield f"{base}/{row.plural}", partial(_item, self._everywhere, [*of_list(), query("pretty")])
        yield f"{within}/{row.plural}/{{name}}", partial(_item, self._operations, named)
        for sub in row.subresources:
            yield from self._subresource(f"{within}/{row.plural}/{{name}}", sub, shared)
        if "watch" in row.verbs and self.watched:
            yield from self._watches(base, namespace)

    def _operation(self, action: str, description: str, operation: str, kind: GroupVersionKind | None = None) -> Object:
        about = kind or self.kind
        return {
            "description": description,
            "operationId": operation,
            "tags": [tag(self.row.group, self.row.version)],
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": {"group": about.group, "version": about.version, "kind": about.kind},
        }

    def _list(self, operation: str) -> Object:
        row = self.row
        watches = self.watched if "watch" in row.verbs else ""
        return {
            **self._operation("list", f"list {watches}objects of kind {row.kind}", operation),
            "responses": _responses(self.list_name, {"200": "OK"}, self.list_media),
        }

    def _everywhere(self) -> Object:
        if "list" in self.row.verbs:
            return {"get": self._list(f"list{self.prefix}{self.row.kind}ForAllNamespaces")}
        return {}

    def _collection(self) -> Object:
        row, found = self.row, {}
        if "list" in row.verbs:
            found["get"] = {**self._list(f"list{self.prefix}{self.scope}{row.kind}"), "parameters": of_list()}
        if "create" in row.verbs:
            found["post"] = {
                **self._operation("post", f"create {_article(row.kind)}", f"create{self.prefix}{self.scope}{row.kind}"),
                "parameters": of_write(),
                "requestBody": {"content": _content(self.name, self.body_media), "required": True},
                "responses": _responses(self.name, {"200": "OK", "201": "Created", "202": "Accepted"}, self.media),
            }
        if "deletecollection" in row.verbs:
            text = f"delete collection of {row.kind}"
            operation = f"delete{self.prefix}Collection{self.scope}{row.kind}"
            found["delete"] = {
                **self._operation("deletecollection", text, operation),
                **self.collection_options(),
                "responses": _responses(_META + "Status", {"200": "OK"}, self.media),
            }
        return found

    def collection_options(self) -> Object:
        """The parameters of the deletion of a collection."""
        return {
            "parameters": [*of_delete(), *_without_watch()],
            "requestBody": {"content": _content(_META + "DeleteOptions", ("*/*",))},
        }

    def read_parameters(self) -> list[Object]:
        """The parameters of reading one object."""
        return []

    def _operations(self) -> Object:
        row = self.row
        return self._verbs(row.verbs, row.kind, f"{self.prefix}{self.scope}{row.kind}", self.name, self.kind, "")

    def _verbs(
        self, verbs: tuple[str, ...], about: str, words: str, name: str | None, kind: GroupVersionKind, of: str
    ) -> Object:
        found: Object = {}
        if "get" in verbs:
            found["get"] = {
                **self._operation("get", f"read {of}the specified {about}", f"read{words}", kind),
                "responses": _responses(name, {"200": "OK"}, self.media),
            }
            if self.read_parameters():
                found["get"]["parameters"] = self.read_parameters()
        if "update" in verbs:
            found["put"] = {
                **self._operation("put", f"replace {of}the specified {about}", f"replace{words}", kind),
                "parameters": of_write(),
                "requestBody": {"content": _content(name, self.body_media), "required": True},
                "responses": _responses(name, {"200": "OK", "201": "Created"}, self.media),
            }
        if "patch" in verbs:
            found["patch"] = {
                **self._operation("patch", f"partially update {of}the specified {about}", f"patch{words}", kind),
                "parameters": of_patch(),
                "requestBody": {"content": _content(_META + "Patch", self.patches), "required": True},
                "responses": _responses(name, self.patch_codes, self.media),
            }
        if "delete" in verbs and not of:
            # two kinds return the object, although upstream documents a Status
            exact = self.row.returns_deleted and about not in ("Namespace", "CustomResourceDefinition")
            answer = name if exact else _META + "Status"
            found["delete"] = {
                **self._operation("delete", f"delete {_article(about)}", f"delete{words}", kind),
                "parameters": of_delete(),
                "requestBody": {"content": _content(_META + "DeleteOptions", self.body_media)},
                "responses": _responses(answer, {"200": "OK", "202": "Accepted"}, self.media),
            }
        return found

    def _subresource(self, path: str, sub: Subresource, shared: list[Object]) -> Iterator[tuple[str, Make]]:
        row = self.row
        kind = GroupVersionKind(sub.group or row.group, sub.version or row.version, sub.kind or row.kind)
        # the log is text, which has no kind: upstream describes its operations with the pod; those of custom resources likewise
        named = row.kind if sub.name == "log" or row.typed_items else kind.kind
        shared = [in_path("name", f"name of the {named}"), *shared]
        words = f"{self.prefix}{self.scope}{row.kind}{sub.name[:1].upper()}{sub.name[1:]}"
        here = f"{path}/{sub.name}"
        if sub.name in _CONNECT:
            fixed = [parameter for parameter in shared if parameter["in"] == "path"]
            more = of_connection(kind.kind)
            words = words.removeprefix(self.prefix)
            yield here, partial(_item, partial(self._connections, sub, kind, words), [*fixed, *more])
            if sub.name == "proxy":
                rest = [*fixed, in_path("path", "path to the resource"), *more]
                yield (
                    f"{here}/{{path}}",
                    partial(_item, partial(self._connections, sub, kind, words + "WithPath"), rest),
                )
        elif sub.name == "log":
            yield here, partial(_item, partial(self._log, kind, words), [*shared, *of_connection("PodLogOptions")])
        else:
            yield here, partial(_item, partial(self._of_subresource, sub, kind, words), shared)

    def _log(self, kind: GroupVersionKind, words: str) -> Object:
        text = self._verbs(("get",), self.row.kind, words, None, kind, "log of ")
        text["get"]["responses"] = _responses(None, {"200": "OK"}, (*self.media, "text/plain"))
        return text

    def _of_subresource(self, sub: Subresource, kind: GroupVersionKind, words: str) -> Object:
        row = self.row
        name = definition_name(kind, row.typed_items)
        about = self.kind if row.typed_items else kind
        item = self._verbs(sub.verbs, row.kind, words, name, about, f"{sub.name} of ")
        if "create" in sub.verbs:
            item["post"] = {
                **self._operation("post", f"create {sub.name} of {_article(row.kind)}", f"create{words}", kind),
                "parameters": of_write(),
                "requestBody": {"content": _content(name, self.body_media), "required": True},
                "responses": _responses(name, {"200": "OK", "201": "Created", "202": "Accepted"}, self.media),
            }
        return item

    def _connections(self, sub: Subresource, kind: GroupVersionKind, words: str) -> Object:
        methods = (
            ("get", "post", "put", "delete", "patch", "head", "options") if sub.name == "proxy" else ("get", "post")
        )
        found = {}
        for method in methods:
            text = f"connect {method.upper()} requests to {sub.name} of {self.row.kind}"
            operation = f"connect{self.prefix}{method.capitalize()}{words}"
            found[method] = {
                **self._operation("connect", text, operation, kind),
                "responses": _responses(None, {"200": "OK"}, ("*/*",)),
            }
        return found

    def _watches(self, base: str, namespace: list[Object]) -> Iterator[tuple[str, Make]]:
        row = self.row
        prefix = f"watch{self.prefix}{self.scope}{row.kind}"
        named = in_path("name", f"name of the {row.kind}")
        within = f"{base}/watch/namespaces/{{namespace}}" if row.namespaced else f"{base}/watch"
        scope = namespace if row.namespaced else []

        def watch(action: str, text: str, operation: str, *more: Object) -> Make:
            parameters = [*of_list(), *more, query("pretty")]
            return partial(_item, partial(self._watch, action, text, operation), parameters)

        several = (
            f"watch individual changes to a list of {row.kind}. "
            "deprecated: use the 'watch' parameter with a list operation instead."
        )
        one = (
            f"watch changes to an object of kind {row.kind}. deprecated: use the 'watch' parameter with a list operation "
            "instead, filtered to a single item with the 'fieldSelector' parameter."
        )
        yield f"{within}/{row.plural}", watch("watchlist", several, prefix + "List", *scope)
        if "get" in row.verbs:
            yield f"{within}/{row.plural}/{{name}}", watch("watch", one, prefix, *scope, named)
        if row.namespaced:
            operation = f"watch{self.prefix}{row.kind}ListForAllNamespaces"
            yield f"{base}/watch/{row.plural}", watch("watchlist", several, operation)

    def _watch(self, action: str, text: str, operation: str) -> Object:
        responses = _responses(_META + "WatchEvent", {"200": "OK"}, self.list_media)
        return {"get": {**self._operation(action, text, operation), "responses": responses}}


class _CBORMaker(_Maker):
    """The operations of one resource of a server with CBOR."""

    media = _CBOR_MEDIA
    list_media = _CBOR_WATCH_MEDIA
    patches = _CBOR_PATCHES


class _CustomMaker(_Maker):
    """The operations of one custom resource; upstream describes these by other code, with small differences."""

    media = ("application/json", "application/yaml")
    list_media = media
    body_media = media
    patches = _PATCHES[:-1]  # without strategic merge patch: kubectl apply chooses its patch type by this list
    patch_codes: ClassVar[dict[str, str]] = {"200": "OK"}
    watched = ""

    def collection_options(self) -> Object:
        return {"parameters": of_list()}

    def read_parameters(self) -> list[Object]:
        return [query("resourceVersion")]


def _without_watch() -> list[Object]:
    return [item for item in of_list() if item["name"] not in ("watch", "allowWatchBookmarks")]
