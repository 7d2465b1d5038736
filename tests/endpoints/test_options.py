"""Query options that a verb does not take, or not together."""

from __future__ import annotations

import pytest

from kapi.admission.interface import CREATE, UPDATE, Attributes, Plugin
from kapi.machinery.tree import Object
from kapi.testing.memory_api import MemoryAPI, succeed

MAPS = "/api/v1/namespaces/n/configmaps"
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
MATCH, FORBIDDEN, UNSUPPORTED = "resourceVersionMatch", "resourceVersionMatch: Forbidden", "Unsupported value"
CONTINUED = f"{FORBIDDEN}: resourceVersionMatch is forbidden when continue is provided"
MATCH_NEEDED = f"{FORBIDDEN}: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
DRY_RUN = f'dryRun: {UNSUPPORTED}: ["x"]: supported values: "All"'


def refused(api: MemoryAPI, method: str, uri: str, body: object = None, type: str = "") -> tuple[str, list[str]]:
    """The kind of the options, and each error with its field."""
    answer = api.ask(method, uri, body, type=type)
    assert answer.code == 422, answer.written
    details = answer.json["details"]
    return details["kind"], [f"{cause['field']}: {cause['message']}" for cause in details["causes"]]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        (f"{MATCH}=Exact", [f"{FORBIDDEN}: resourceVersionMatch is forbidden unless resourceVersion is provided"]),
        (f"{MATCH}=NotOlderThan&resourceVersion=1&continue=x", [CONTINUED]),
        (f"{MATCH}=x&resourceVersion=1", [f'{MATCH}: {UNSUPPORTED}: "x": supported values: "Exact", "NotOlderThan", ""']),
        (
            f"{MATCH}=Exact&resourceVersion=0",
            [f'{FORBIDDEN}: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'],
        ),
        ("sendInitialEvents=true", ["sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"]),
        ("watch=1&continue=x", [CONTINUED]),
        ("watch=1&resourceVersion=1&sendInitialEvents=true", [MATCH_NEEDED]),
        (
            f"watch=1&{MATCH}=NotOlderThan",
            [f"{FORBIDDEN}: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"],
        ),
        (
            f"watch=1&sendInitialEvents=false&{MATCH}=Exact&continue=x",
            [MATCH_NEEDED, f'{MATCH}: {UNSUPPORTED}: "Exact": supported values: "NotOlderThan"', CONTINUED],
        ),
    ],
)  # fmt: skip
def test_of_lists_and_watches(api: MemoryAPI, query: str, wanted: list[str]) -> None:
    assert refused(api, "GET", f"{MAPS}?{query}") == ("ListOptions", wanted)


@pytest.mark.parametrize(
    ("method", "query", "type", "wanted"),
    [
        ("POST", f"fieldManager={'x' * 129}", "", ["fieldManager: Too long: may not be more than 128 bytes"]),
        (
            "POST",
            "fieldManager=a%07b&dryRun=x&fieldValidation=y",
            "",
            [
                r'fieldManager: Invalid value: "a\ab": invalid character U+0007 (at position 1)',
                DRY_RUN,
                f'fieldValidation: {UNSUPPORTED}: "y": supported values: "", "Ignore", "Strict", "Warn"',
            ],
        ),
        ("PUT", "dryRun=x", "", [DRY_RUN]),
        ("PATCH", "force=true", MERGE, ["force: Forbidden: may not be specified for non-apply patch"]),
        ("PATCH", "force=true", APPLY, ["fieldManager: Required value: is required for apply patch"]),
    ],
)
def test_of_writes(api: MemoryAPI, method: str, query: str, type: str, wanted: list[str]) -> None:
    kind = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}[method]
    name = "" if method == "POST" else "/a"
    assert refused(api, method, f"{MAPS}{name}?{query}", {"metadata": {"name": "a"}}, type) == (kind, wanted)


class Sees(Plugin):
    """Remembers the options of the last request."""

    operations = frozenset({CREATE, UPDATE})
    options: Object | None = None

    def validate(self, attributes: Attributes) -> None:
        self.options = attributes.options


@pytest.mark.parametrize(
    ("method", "query", "type", "kind", "options"),
    [
        ("POST", "", "", "CreateOptions", {}),
        ("POST", "?fieldValidation=Strict", "", "CreateOptions", {"fieldValidation": "Strict"}),
        ("POST", "?fieldManager=m&dryRun=All", "", "CreateOptions", {"fieldManager": "m", "dryRun": ["All"]}),
        ("PUT", "/a?fieldValidation=Ignore", "", "UpdateOptions", {"fieldValidation": "Ignore"}),
        ("PATCH", "/a?fieldManager=m&force=true", APPLY, "UpdateOptions", {"fieldManager": "m"}),
        ("PATCH", "/a?fieldValidation=Warn", MERGE, "UpdateOptions", {"fieldValidation": "Warn"}),
    ],
)
def test_admission_sees_those_that_were_sent(method: str, query: str, type: str, kind: str, options: Object) -> None:
    plugin = Sees()
    api = MemoryAPI(plugins=[plugin])
    succeed(api.caches.start())
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    if method != "POST":
        assert api.ask("POST", MAPS, body).code == 201
    assert api.ask(method, MAPS + query, body, type=type).code in (200, 201)
    assert plugin.options == {"kind": kind, "apiVersion": "meta.k8s.io/v1", **options}


@pytest.mark.parametrize(
    ("revision", "code"), [("", 201), ("0", 201), ("1", 500), ("9", 500), ("x", 201), ("-1", 201), ("01", 500)]
)
def test_an_object_that_is_created_has_no_revision(api: MemoryAPI, revision: str, code: int) -> None:
    answer = api.ask("POST", MAPS, {"metadata": {"name": f"r{revision}", "resourceVersion": revision}})
    assert answer.code == code, answer.json
    if code == 500:
        assert answer.json["message"] == "resourceVersion should not be set on objects to be created"


def test_of_deletions(api: MemoryAPI) -> None:
    kind, found = refused(api, "DELETE", f"{MAPS}/a?propagationPolicy=y&orphanDependents=true&dryRun=x")
    assert (kind, found) == (
        "DeleteOptions",
        [
            'propagationPolicy: Invalid value: "y": orphanDependents and deletionPropagation cannot be both set',
            f'propagationPolicy: {UNSUPPORTED}: "y": supported values: "Foreground", "Background", "Orphan", "nil"',
            DRY_RUN,
        ],
    )
