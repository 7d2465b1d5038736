"""What concerns thousands of objects at once, also what controllers inside the process do with them afterwards."""

from __future__ import annotations

from collections.abc import Callable

from tests.bench.stall_cases.case import SIZE, Case, Object, Place, Request, many
from tests.bench.stall_cases.metadata import CORE

_MANY = 3000  # objects
_SETTLE = 6.0  # seconds that controllers may take
RBAC, AUTHENTICATION, AUTHORIZATION = (
    f"/apis/{group}.k8s.io/v1" for group in ("rbac.authorization", "authentication", "authorization")
)


def _maps(collection: str) -> list[Request]:
    return [
        Request("POST", collection, {"metadata": {"name": f"m{i}"}, "data": {"a": "b" * 100}}) for i in range(_MANY)
    ]


def _filled(place: Place) -> tuple[str, list[Request]]:
    """A namespace of its own with many objects."""
    name = place.name()
    made = Request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    return f"/api/v1/namespaces/{name}", [made, *_maps(f"/api/v1/namespaces/{name}/configmaps")]


def _namespace(method: str, suffix: str = "", body: Object | bytes = b"") -> Callable[[Place], Case]:
    def make(place: Place) -> Case:
        path, before = _filled(place)
        after = [] if method == "DELETE" and not suffix else [Request("DELETE", path)]
        return Case(Request(method, path + suffix, body), before=before, after=after, settle=_SETTLE)

    return make


def _aggregated(place: Place) -> Case:
    """As many roles are put together to one."""
    label = {"aggregate": place.name()}

    def role(i: int) -> Object:
        rule = {"verbs": ["get"], "apiGroups": ["example.com"], "resources": [f"r{i}"]}
        return {"metadata": {"name": f"{label['aggregate']}-{i}", "labels": label}, "rules": [rule]}

    roles = f"{RBAC}/clusterroles"
    case = place.create(
        RBAC, "clusterroles", {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": label}]}}, namespaced=False
    )
    case.before = [Request("POST", roles, role(i)) for i in range(_MANY)]
    case.after += [Request("DELETE", f"{roles}/{label['aggregate']}-{i}") for i in range(_MANY)]
    case.settle = _SETTLE
    return case


def _review(path: str, spec: Callable[[], Object]) -> Callable[[Place], Case]:
    return lambda place: Case(Request("POST", path, {"spec": spec()}))


CASES: dict[str, Callable[[Place], Case]] = {
    "3000 objects: delete collection": _namespace("DELETE", "/configmaps"),
    "3000 objects: namespace deleted": _namespace("DELETE"),
    "3000 objects: quota made": _namespace(
        "POST", "/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "9999"}}}
    ),
    "3000 roles: aggregated": _aggregated,
    "token review: token": _review(f"{AUTHENTICATION}/tokenreviews", lambda: {"token": "a." * (SIZE // 2)}),
    "token review: audiences": _review(
        f"{AUTHENTICATION}/tokenreviews", lambda: {"token": "a", "audiences": many(lambda i: f"a{i}")}
    ),
    "subject access review: groups": _review(
        f"{AUTHORIZATION}/subjectaccessreviews",
        lambda: {"user": "u", "groups": many(lambda i: f"g{i}"), "resourceAttributes": {"verb": "get", "resource": "pods"}},
    ),
    "subject access review: extra": _review(
        f"{AUTHORIZATION}/subjectaccessreviews",
        lambda: {"user": "u", "extra": {"a": many(lambda i: f"g{i}")}, "resourceAttributes": {"verb": "get"}},
    ),
    "self subject rules review": lambda place: Case(
        Request("POST", f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}})
    ),
    "delete: options of megabytes": lambda place: Case(
        Request("DELETE", f"{place.path(CORE, 'configmaps')}/none", {"preconditions": {"uid": "u" * SIZE}}, expected=(404,))
    ),
}  # fmt: skip
