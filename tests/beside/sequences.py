"""Random requests about one object of a resource: how it is made, read, changed and deleted."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tests.beside.mutations import mutated
from tests.beside.samples import Samples, parent_of, places, without

_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
_PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
_SELECTORS = (
    "labelSelector=app=a", "labelSelector=app in (a,b),!x", "labelSelector=a=b=c", "fieldSelector=metadata.name=a",
    "fieldSelector=spec.x=1", "fieldSelector=metadata.namespace!=a", "limit=1", "limit=x", "resourceVersion=0",
    "resourceVersion=x", "resourceVersionMatch=Exact", "resourceVersion=0&resourceVersionMatch=NotOlderThan",
    "continue=x", "timeoutSeconds=-1", "pretty=true",
)  # fmt: skip


_WATCHES = (
    "resourceVersion=0",
    "resourceVersion=0&labelSelector=app=a",
    "fieldSelector=metadata.name!=a",
    "resourceVersion=x",
)
#: subresources that are written as the whole object
_WHOLE = ("status", "approval", "ephemeralcontainers", "finalize", "resize")


class Kind(NamedTuple):
    """A resource that both servers have.  ``schema`` is the name of its schema; ``verbs`` are those of discovery."""

    path: str  # of the group and version: "api/v1", "apis/apps/v1"
    version: str  # "v1", "apps/v1"
    kind: str
    resource: str
    schema: str
    namespaced: bool
    verbs: frozenset[str]
    subresources: tuple[str, ...] = ()


class Request(NamedTuple):
    method: str
    path: str
    body: Any = None  # a tree, or text or bytes that are sent as they are
    type: str = "application/json"
    accept: str = "application/json"

    def data(self) -> bytes | None:
        if self.body is None:
            return None
        if isinstance(self.body, bytes):
            return self.body
        return self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()

    def __str__(self) -> str:
        data = self.data()
        text = "" if data is None else data.hex() if isinstance(self.body, bytes) else data.decode()
        body = "" if data is None else f" {self.type} {text}"
        accept = "" if self.accept == "application/json" else f" ({self.accept})"
        return f"{self.method} {self.path}{accept}{body}"


class Requests:
    """Those about objects of one kind; ``dry`` writes nothing (``dryRun=All``).  ``accepted``: objects that servers accept."""

    def __init__(
        self,
        kind: Kind,
        samples: Samples,
        chance: random.Random,
        namespace: str,
        *,
        dry: bool,
        accepted: Sequence[Any] = (),
    ) -> None:
        self._kind, self._samples, self._chance, self._dry, self._accepted = kind, samples, chance, dry, accepted
        scope = f"/namespaces/{namespace}" if kind.namespaced else ""
        self._all = f"/{kind.path}{scope}/{kind.resource}"

    def about(self, name: str) -> Iterator[Request]:
        """A create, some of everything else in any order, and a delete."""
        made = self._object(name)
        if "create" in self._kind.verbs:
            yield Request("POST", self._url(self._all, self._validation(), self._dry_run(0.2)), made)
        one = f"{self._all}/{name}"
        others = [self._get, self._list, self._update, self._patch, self._apply, self._subresource]
        for _ in range(self._chance.randint(2, 6)):
            yield from self._chance.choice(others)(one, made)
        if "watch" in self._kind.verbs and self._chance.random() < 0.02:  # it takes a second
            accept = self._chance.choice(("application/json", _TABLE))
            query = self._chance.choice(_WATCHES)
            yield Request("GET", self._url(self._all, "watch=true&timeoutSeconds=1", query), accept=accept)
        if "delete" in self._kind.verbs:
            yield from self._delete(one)

    # -- reads

    def _get(self, one: str, made: Any) -> Iterator[Request]:
        if "get" in self._kind.verbs:
            name = one if self._chance.random() < 0.9 else self._all + "/none"
            yield Request("GET", name, accept=self._chance.choice(("application/json", _TABLE, _PARTIAL)))

    def _list(self, one: str, made: Any) -> Iterator[Request]:
        if "list" in self._kind.verbs:
            query = self._chance.choice(("", *_SELECTORS))
            accept = self._chance.choice(("application/json", _TABLE, _PARTIAL_LIST))
            yield Request("GET", self._url(self._all, query), accept=accept)

    # -- writes

    def _update(self, one: str, made: Any) -> Iterator[Request]:
        if "update" in self._kind.verbs:
            yield Request("PUT", self._url(one, self._validation(), self._dry_run()), self._changed(made))

    def _patch(self, one: str, made: Any) -> Iterator[Request]:
        if "patch" not in self._kind.verbs:
            return
        url = self._url(one, self._validation(), self._dry_run())
        kind = self._chance.choice(("merge", "strategic-merge", "json"))
        if kind == "json":
            yield Request("PATCH", url, self._operations(made), "application/json-patch+json")
            return
        part = {key: value for key, value in self._changed(made).items() if self._chance.random() < 0.5}
        yield Request("PATCH", url, part, f"application/{kind}-patch+json")

    def _apply(self, one: str, made: Any) -> Iterator[Request]:
        if "patch" in self._kind.verbs:
            manager = self._chance.choice(("fieldManager=m1", "fieldManager=m2", "fieldManager=m2&force=true", ""))
            url = self._url(one, manager, self._validation(), self._dry_run())
            yield Request("PATCH", url, self._changed(made), "application/apply-patch+yaml")

    def _subresource(self, one: str, made: Any) -> Iterator[Request]:
        known = [name for name in self._kind.subresources if name == "scale" or name in _WHOLE]
        if not known:
            return
        name = self._chance.choice(known)
        url = self._url(f"{one}/{name}", self._validation(), self._dry_run())
        yield Request("GET", f"{one}/{name}")
        if name == "scale":
            part: Any = {"spec": {"replicas": self._chance.choice((0, 3, -1, "x"))}}
        elif self._chance.random() < 0.5:
            yield Request("PUT", url, self._changed(made))
            return
        else:
            part = {"status": self._samples.of(self._kind.schema).get("status", {"x": 1})}
        yield Request("PATCH", url, part, "application/merge-patch+json")

    def _delete(self, one: str) -> Iterator[Request]:
        options: Any = self._chance.choice(
            (
                None, {"propagationPolicy": "Background"}, {"propagationPolicy": "Foreground"}, {"propagationPolicy": "x"},
                {"preconditions": {"uid": "x"}}, {"gracePeriodSeconds": 0}, {"gracePeriodSeconds": -1},
                {"orphanDependents": True, "propagationPolicy": "Orphan"},
            )
        )  # fmt: skip
        if options is not None:
            options = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        yield Request("DELETE", self._url(one, self._dry_run(0.2)), options)

    # -- parts

    def _object(self, name: str) -> dict[str, Any]:
        made = {"apiVersion": self._kind.version, "kind": self._kind.kind, "metadata": self._samples.metadata(name)}
        if self._chance.random() < 0.03:
            made[self._chance.choice(("apiVersion", "kind"))] = "x"
        if self._accepted and self._chance.random() < 0.5:
            obj = {**self._chance.choice(self._accepted), **made}
            return mutated(obj, self._chance) if self._chance.random() < 0.8 else obj
        return {**made, **self._samples.of(self._kind.schema)}

    def _changed(self, made: Any) -> Any:
        """The object with some places as in another one, or without them."""
        if self._accepted and self._chance.random() < 0.5:
            return mutated(made, self._chance)
        changed, other = copy.deepcopy(made), self._object(made["metadata"].get("name", "a"))
        for key in other:
            if key not in ("apiVersion", "kind", "metadata") and self._chance.random() < 0.3:
                changed[key] = other[key]
        known = [
            place for place in places(changed) if place[0] not in ("apiVersion", "kind") and place != ("metadata",)
        ]
        for _ in range(self._chance.choice((0, 1, 1, 2))):
            try:
                changed = without(changed, self._chance.choice(known)) if known else changed
            except (KeyError, IndexError, TypeError):
                pass
        return changed

    def _operations(self, made: Any) -> list[dict[str, Any]]:
        known = list(places(made))
        found = []
        for _ in range(self._chance.randint(1, 3)):
            place = self._chance.choice(known)
            pointer = "/" + "/".join(str(key).replace("~", "~0").replace("/", "~1") for key in place)
            kind = self._chance.choice(("add", "replace", "remove", "test", "move", "x"))
            operation: dict[str, Any] = {"op": kind, "path": pointer}
            if kind in ("add", "replace", "test"):
                operation["value"] = self._chance.choice((parent_of(made, place)[place[-1]], 1, "a", None, {}))
            elif kind == "move":
                operation["from"] = pointer + "x" * self._chance.randint(0, 1)
            found.append(operation)
        return found

    def _validation(self) -> str:
        return self._chance.choice(("", "", "fieldValidation=Strict", "fieldValidation=Ignore", "fieldValidation=x"))

    def _dry_run(self, often: float = 0.1) -> str:
        return "dryRun=All" if self._dry or self._chance.random() < often else ""

    @staticmethod
    def _url(path: str, *queries: str) -> str:
        query = "&".join(each for each in queries if each)
        return f"{path}?{query}" if query else path
