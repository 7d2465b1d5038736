"""Long answers: lists and tables of large objects, the descriptions of the API."""

from __future__ import annotations

from collections.abc import Callable

from tests.bench.stall_cases.case import STORED, Case, Place, Request, config, mapping
from tests.bench.stall_cases.metadata import CORE
from tests.bench.stall_cases.pods import container, env, pod

_METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def _list(plural: str, count: int, query: str = "", **headers: str) -> Callable[[Place], Case]:
    """Lists large objects."""

    def make(place: Place) -> Case:
        found = []
        for _ in range(count):
            if plural == "pods":
                body = pod(container(env=[env(index) for index in range(STORED // 40)]))
            else:
                body = {**config(), "data": mapping(lambda i: f"k{i}", "v", STORED)}
            found.append(place.create(CORE, plural, body))
        return Case(
            Request("GET", place.path(CORE, plural) + query, headers=headers),
            before=[case.request for case in found],
            after=[request for case in found for request in case.after],
        )

    return make


def _get(path: str, **headers: str) -> Callable[[Place], Case]:
    return lambda place: Case(Request("GET", path, headers=headers))


CASES: dict[str, Callable[[Place], Case]] = {
    "list: large objects": _list("configmaps", 6),
    "list: large objects, gzip": _list("configmaps", 6, Accept_Encoding="gzip"),
    "list: large objects, table": _list("configmaps", 6, "?includeObject=Object", Accept=_TABLE),
    "list: large objects, metadata": _list("configmaps", 6, Accept=_METADATA),
    "list: large objects, YAML": _list("configmaps", 2, Accept="application/yaml"),
    "list: large objects, pretty": _list("configmaps", 6, "?pretty=true"),
    "list: large pods, table": _list("pods", 3, Accept=_TABLE),
    "list: large objects, watch": _list("configmaps", 6, "?watch=1&resourceVersion=0&timeoutSeconds=1"),
    "OpenAPI v2": _get("/openapi/v2"),
    "OpenAPI v2, gzip": _get("/openapi/v2", Accept_Encoding="gzip"),
    "OpenAPI v3": _get("/openapi/v3/apis/apps/v1"),
    "metrics": _get("/metrics"),
}  # fmt: skip
