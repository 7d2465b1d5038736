"""Custom resources in the cases where they differ from built-in ones: nulls, unknown fields, dry runs, scales."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from kapi.endpoints.openapi.handler import OpenAPIHandler
from kapi.machinery.tree import Object, Tree
from kapi.servers.apiextensions.outline import outline
from kapi.servers.apiextensions.rows import Rows
from kapi.testing.memory_api import MemoryAPI
from tests.certificates import self_signed
from tests.endpoints.built_in_groups import groups_of
from tests.endpoints.test_discovery import context
from tests.endpoints.test_openapi import answer
from tests.servers.apiextensions.definition_kit import DEFINITIONS, FOOS, create, definition, install, version

APPLY, JSON, MERGE = "application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"
CUT = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
MALFORMED = "failed to parse certificate: x509: malformed certificate"
TEXT: Object = {"type": "string"}


def apply(api: MemoryAPI, spec: Object, manager: str = "m", path: str = FOOS) -> Any:
    api_version = "/".join(path.split("/")[2:4])
    body = {"apiVersion": api_version, "kind": "Foo", "metadata": {"name": "a"}, "spec": spec}
    return api.ask("PATCH", f"{path}/a?fieldManager={manager}&force=true", body, type=APPLY)


def test_an_applied_null_is_refused_where_the_schema_has_no_nulls_and_kept_where_it_has(api: MemoryAPI) -> None:
    fields = {"text": TEXT, "none": {**TEXT, "nullable": True}, "given": {**TEXT, "default": "d"}}
    fields["map"] = {"type": "object", "additionalProperties": TEXT}
    install(api, definition(version(spec=fields)))
    for spec, where in [
        ({"text": None}, "spec.text"),
        ({"map": {"k": None}}, "spec.map.k"),
        ({"map": None}, "spec.map"),
    ]:
        answer = apply(api, spec)
        (cause,) = answer.json["details"]["causes"]
        assert (answer.code, cause["reason"], cause["field"]) == (422, "FieldValueTypeInvalid", where)
    answer = apply(api, {"none": None, "given": None})
    assert (answer.code, answer.json["spec"]) == (201, {"none": None, "given": "d"})
    sent = {
        "apiVersion": "example.com/v1",
        "kind": "Foo",
        "metadata": {"name": "b"},
        "spec": {"text": None, "none": None},
    }
    answer = api.ask("POST", FOOS, sent)  # decoding drops a null that the schema does not have
    assert (answer.code, answer.json["spec"]) == (201, {"none": None, "given": "d"})


def test_unknown_fields_are_reported_in_the_order_of_their_paths(api: MemoryAPI) -> None:
    """First those of metadata, then those that are pruned, then those of the metadata of embedded objects."""
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    ports = {"type": "array", "items": {"type": "object", "properties": {"port": {"type": "integer"}}}}
    install(api, definition(version(spec={"embedded": embedded, "ports": ports})))
    inner = {"apiVersion": "v1", "kind": "A", "metadata": {"name": "x", "odd": 1}}
    spec = {"zeta": 1, "embedded": inner, "ports": [{"other": 1}], "alpha": 1}
    body = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a", "strange": 1}, "spec": spec}
    answer = api.ask("POST", f"{FOOS}?fieldValidation=Strict", body)
    fields = ["metadata.strange", "spec.alpha", "spec.ports[0].other", "spec.zeta", "spec.embedded.metadata.odd"]
    wanted = ", ".join(f'unknown field "{field}"' for field in fields)
    assert (answer.code, answer.json["message"].rpartition("strict decoding error: ")[2]) == (400, wanted)


@pytest.mark.parametrize("more", [{}, {"x-kubernetes-preserve-unknown-fields": True}])
def test_defaults_of_embedded_objects_lose_what_metadata_does_not_have(api: MemoryAPI, more: Object) -> None:
    """Upstream: ``TestCustomResourceDefaultingOfMetaFields``."""
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, **more}
    names = {"type": "object", "properties": {"name": {**TEXT, "default": "b"}, "odd": {**TEXT, "default": "o"}}}
    typed = {"apiVersion": {**TEXT, "default": "v1"}, "kind": {**TEXT, "default": "A"}}
    whole = {"apiVersion": "v1", "kind": "A", "metadata": {"name": "b", "odd": "o"}}
    fields = {
        "whole": {**embedded, "properties": {"foo": TEXT}, "default": whole},
        "part": {**embedded, "properties": {**typed, "metadata": names}},
    }
    install(api, definition(version(spec=fields)))
    made = create(api, "a", {"part": {"metadata": {}}})
    wanted = {"apiVersion": "v1", "kind": "A", "metadata": {"name": "b"}}
    assert made["spec"] == {"whole": wanted, "part": wanted}
    assert api.ask("GET", f"{FOOS}/a").json["spec"] == made["spec"]


OPEN: Object = {"x-kubernetes-preserve-unknown-fields": True}
ONE: Object = {"type": "object", "properties": {"a": TEXT}}


@pytest.mark.parametrize(
    ("schema", "value", "unknown", "kept"),
    [
        (OPEN, [{"b": [{"c": 1}]}], [], [{"b": [{"c": 1}]}]),
        (
            {"type": "object", "additionalProperties": True},
            {"b": [{"c": 1}], "d": {"e": 1}},
            [".b[0].c", ".d.e"],
            {"b": [{}], "d": {}},
        ),
        ({"type": "array", "items": ONE, **OPEN}, [{"b": 1}], [], [{"b": 1}]),
        (
            {"type": "array", "items": {"type": "object", "properties": {"o": ONE}}, **OPEN},
            [{"o": {"b": 1}}],
            ["[0].o.b"],
            [{"o": {}}],
        ),
        ({"type": "object", "properties": {"o": ONE}, **OPEN}, {"b": 1, "o": {"b": 1}}, [".o.b"], {"b": 1, "o": {}}),
    ],
)
def test_the_schema_decides_which_fields_are_unknown(
    api: MemoryAPI, schema: Object, value: Tree, unknown: list[str], kept: Tree
) -> None:
    install(api, definition(version(spec={"p": schema})))
    body = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": {"p": value}}
    answer = api.ask("POST", FOOS, body)
    assert (answer.code, answer.json["spec"]) == (201, {"p": kept})
    found = [json.loads(text.partition(" - ")[2]) for text in answer.warnings]
    assert found == [f'unknown field "spec.p{path}"' for path in unknown]


@pytest.mark.parametrize("schema", [TEXT, ONE, {"type": "object", "additionalProperties": TEXT}])
def test_fields_of_objects_in_a_list_that_stands_for_another_type_are_unknown(api: MemoryAPI, schema: Object) -> None:
    install(api, definition(version(spec={"p": schema})))
    body = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": {"p": [[{"b": 1}]]}}
    answer = api.ask("POST", f"{FOOS}?fieldValidation=Strict", body)
    assert (answer.code, answer.json["message"].rpartition(": ")[2]) == (400, 'unknown field "spec.p[0][0].b"')


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"kind": {"b": 1, "a": 2}}, '[k].kind: Invalid value: {"a":2,"b":1}: must be a string'),
        ({"apiVersion": None}, "[k].apiVersion: Invalid value: null: must be a string"),
        (
            {"metadata": {"name": 1}},
            '[k].metadata: Invalid value: {"name":1}: json: cannot unmarshal number into Go struct field '
            "ObjectMeta.name of type string",
        ),
    ],
)
def test_types_of_what_identifies_an_embedded_object(api: MemoryAPI, change: Object, why: str) -> None:
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, **OPEN}
    install(api, definition(version(spec={"p": {"type": "object", "additionalProperties": embedded}})))
    inner = {"apiVersion": "v1", "kind": "A", "metadata": {"name": "x"}, **change}
    body = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": {"p": {"k": inner}}}
    answer = api.ask("POST", FOOS, body)
    assert (answer.code, answer.json["message"].partition("a Foo: ")[2]) == (400, "spec.p" + why)


def test_the_generation_counts_values_of_other_types(api: MemoryAPI) -> None:
    """A number that is sent as 1.0 is stored as 1, an integer, so that the same number is a change again."""
    install(api, definition(version(spec={"any": {"x-kubernetes-preserve-unknown-fields": True}})))
    create(api, "a", {"any": 1})
    body = json.dumps({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": {"any": "%"}})
    values = ("1", "true", "true", "1.0", "1.0", "1", "[1]", "[1.0]", '{"b": 0}', '{"b": false}', "1.5", "1.5")
    found = []
    for value in (*values, "9223372036854775808", "9223372036854775808"):
        current = api.ask("GET", f"{FOOS}/a").json["metadata"]["resourceVersion"]
        text = body.replace('"%"', value).replace('"name": "a"', f'"name": "a", "resourceVersion": "{current}"')
        answer = api.ask("PUT", f"{FOOS}/a", text)
        assert answer.code == 200, answer.json
        found.append(answer.json["metadata"]["generation"])
    assert found == [1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 9, 9, 10, 10]


def test_a_json_patch_with_duplicate_fields_and_fractions_is_stored(api: MemoryAPI) -> None:
    inner = {"type": "object", "properties": {"x": {"type": "number"}}}
    install(api, definition(version(spec={"o": inner})))
    create(api, "a", {})
    patch = b'[{"op":"add","path":"/spec/o","value":{"x":1,"x":2.50,"q":1.5}}]'
    answer = api.ask("PATCH", f"{FOOS}/a", patch, type=JSON)
    assert (answer.code, answer.json["spec"]) == (200, {"o": {"x": 2.5}})
    wanted = ['json patch duplicate field "[0].value.x"', 'duplicate field "spec.o.x"', 'unknown field "spec.o.q"']
    assert [json.loads(text.partition(" - ")[2]) for text in answer.warnings] == wanted
    strict = api.ask("PATCH", f"{FOOS}/a?fieldValidation=Strict", patch, type=JSON)
    assert (strict.code, '{"o":{"q":1.5,"x":2.5}}' in strict.json["message"].replace("\\", "")) == (422, True)


@pytest.mark.parametrize("dry_run", ["?dryRun=All", ""])
def test_fields_that_the_stored_version_has_not_are_lost_in_dry_runs_too(api: MemoryAPI, dry_run: str) -> None:
    other = version("v2", storage=False, spec={"size": {"type": "integer"}, "two": TEXT})
    install(api, definition(version(), other))
    path = FOOS.replace("/v1/", "/v2/")
    sent = {"apiVersion": "example.com/v2", "kind": "Foo", "metadata": {"name": "a"}, "spec": {"size": 1, "two": "x"}}
    answer = api.ask("POST", f"{path}{dry_run}", sent)
    assert (answer.code, answer.json["apiVersion"], answer.json["spec"]) == (201, "example.com/v2", {"size": 1})
    create(api, "b", {"size": 1})
    answer = api.ask("PATCH", f"{path}/b{dry_run}", {"spec": {"size": 2, "two": "y"}}, type=MERGE)
    assert (answer.code, answer.json["spec"]) == (200, {"size": 2})


PATHS = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
SCALE = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}}


def scaled(api: MemoryAPI) -> None:
    install(api, definition(version(spec={"size": {"type": "integer"}, "o": TEXT}, subresources={"scale": PATHS})))


def test_the_scale_of_a_custom_resource_has_columns_of_its_own(api: MemoryAPI) -> None:
    scaled(api)
    rows = {}
    for size in (0, 2):
        create(api, f"f{size}", {"size": size})
        table = api.ask(
            "GET", f"{FOOS}/f{size}/scale", headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
        )
        (row,) = table.json["rows"]
        rows[size] = row["cells"][:3]
    columns = [[column[key] for key in ("name", "type", "format")] for column in table.json["columnDefinitions"]]
    assert columns == [
        ["Name", "string", "name"], ["Desired", "integer", ""], ["Available", "integer", ""], ["Age", "date", ""],
    ]  # fmt: skip
    assert table.json["columnDefinitions"][1]["description"] == "Number of desired replicas"
    assert rows == {0: ["f0", None, 0], 2: ["f2", 2, 0]}  # a Scale leaves out zero replicas


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({}, 400),
        ({"replicas": -(2**31)}, 400),
        ({"replicas": 0}, 200),
        ({"replicas": 2}, 200),
        ({"replicas": -(2**31) + 1}, 422),
    ],
)
def test_a_scale_of_a_custom_resource_without_replicas_has_to_have_some(api: MemoryAPI, spec: Tree, code: int) -> None:
    """A patch of one that has none is applied to a value that no one can set."""
    scaled(api)
    create(api, "a", {})
    answer = api.ask("PATCH", f"{FOOS}/a/scale", {"spec": spec}, type="application/merge-patch+json")
    assert answer.code == code, answer.json
    if code == 400:
        assert answer.json["message"] == 'the spec replicas field ".spec.size" cannot be empty'


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"size": "2"}, ".spec.size accessor error: 2 is of the type string, expected int64"),
        ({"size": 2.5}, ".spec.size accessor error: 2.5 is of the type float64, expected int64"),
        ({"size": None}, ".spec.size accessor error: <nil> is of the type <nil>, expected int64"),
        (
            {"size": {"a": [1, None]}},
            ".spec.size accessor error: map[a:[1 <nil>]] is of the type map[string]interface {}, expected int64",
        ),
        ([], ".spec.size accessor error: [] is of the type []interface {}, expected map[string]interface{}"),
        (None, None),
        ({}, None),
    ],
)
def test_replicas_that_are_no_integers_are_refused(api: MemoryAPI, spec: Tree, found: str | None) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    install(api, definition(version(subresources={"scale": PATHS}, schema=schema)))
    answer = api.ask(
        "POST", FOOS, {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": spec}
    )
    causes = (answer.json.get("details") or {}).get("causes", [])
    assert [(cause["field"], cause["message"]) for cause in causes] == (
        [(".spec.size", f"Invalid value: 0: {found}")] if found else []
    )


@pytest.mark.parametrize(
    ("size", "found"),
    [
        (0, []),
        (-1, ["should be a non-negative integer"]),
        (2**31 - 1, []),
        (2**31, ["should be less than or equal to 2147483647"]),
    ],
)
def test_replicas_are_counted_from_zero(api: MemoryAPI, size: int, found: list[str]) -> None:
    scaled(api)
    body = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": {"size": size}}
    answer = api.ask("POST", FOOS, body)
    causes = (answer.json.get("details") or {}).get("causes", [])
    assert [(cause["field"], cause["message"]) for cause in causes] == [
        (".spec.size", f"Invalid value: {size}: {text}") for text in found
    ]


def test_finalizers_need_no_domain(api: MemoryAPI) -> None:
    install(api, definition(version(subresources={"status": {}})))
    obj = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a", "finalizers": ["b"]}}
    made = api.ask("POST", FOOS, obj)
    assert made.code == 201
    for path in (f"{FOOS}/a", f"{FOOS}/a/status"):
        assert api.ask("PUT", path, made.json).code == 200


def test_finalizers_that_may_be_mistaken_for_others_are_warned_of(api: MemoryAPI) -> None:
    """Only those that an update adds; those of Kubernetes itself have no domain."""
    install(api, definition())
    prefer = "prefer a domain-qualified finalizer name"
    why = "to avoid accidental conflicts with other finalizer writers"

    def write(method: str, path: str, finalizers: list[str], **more: str) -> list[str]:
        metadata = {"name": "a", "finalizers": finalizers, **more}
        body = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": metadata, "spec": {}}
        answer = api.ask(method, path, body)
        assert answer.code in (200, 201), answer.json
        return [text.removeprefix("299 - ") for text in answer.responseHeaders.getRawHeaders("Warning") or []]

    given = ["example.com/x", "plain", "example.com", "orphan"]
    assert write("POST", FOOS, given) == [
        f'"metadata.finalizers: \\"example.com\\": {prefer} including a path (/) {why}"',
        f'"metadata.finalizers: \\"plain\\": {prefer} {why}"',
    ]
    assert write("PUT", f"{FOOS}/a", [*given, "other"], resourceVersion=revision(api)) == [
        f'"metadata.finalizers: \\"other\\": {prefer} {why}"'
    ]


def revision(api: MemoryAPI) -> str:
    found: str = api.ask("GET", f"{FOOS}/a").json["metadata"]["resourceVersion"]
    return found


@pytest.mark.parametrize("has_status", [True, False])
def test_a_status_that_only_its_subresource_writes_has_no_owner_before(api: MemoryAPI, has_status: bool) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    install(api, definition(version(schema=schema, **({"subresources": {"status": {}}} if has_status else {}))))
    body = {
        "apiVersion": "example.com/v1",
        "kind": "Foo",
        "metadata": {"name": "a"},
        "spec": {"b": 1},
        "status": {"c": 2},
    }
    made = api.ask("POST", FOOS, body).json
    (entry,) = made["metadata"]["managedFields"]
    assert ("status" in made, "f:status" in entry["fieldsV1"]) == (not has_status, not has_status)
    assert "f:spec" in entry["fieldsV1"]


@pytest.mark.parametrize("apart", [True, False])
def test_a_status_is_written_by_its_subresource_alone_if_there_is_one(api: MemoryAPI, apart: bool) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    parts = {"subresources": {"status": {}}} if apart else {}
    install(api, definition(version(schema={"openAPIV3Schema": schema}, **parts)))

    def patched(part: str, **changes: Any) -> tuple[Any, Any, int]:
        found = api.ask("PATCH", f"{FOOS}/a{part}", changes, type=MERGE).json
        return found.get("spec"), found.get("status"), found["metadata"].get("generation")

    create(api, "a", {"size": 1})
    assert patched("", status={"size": 1}) == ({"size": 1}, None if apart else {"size": 1}, 1 if apart else 2)
    if apart:
        assert patched("/status", status={"size": 2}, spec={"size": 2}) == ({"size": 1}, {"size": 2}, 1)
        assert patched("", status={"size": 3}, spec={"size": 3}) == ({"size": 3}, {"size": 2}, 2)
        assert patched("/status", status=None) == ({"size": 3}, None, 2)
        assert patched("", status={"size": 3}) == ({"size": 3}, None, 2)


@pytest.mark.parametrize(
    ("status", "metadata", "why"),
    [
        ({"size": 1}, {}, ""),
        (
            {"size": "x"},
            {},
            '[status.size: Invalid value: "string": size in body must be of type integer: "string", '
            ".status.size: Invalid value: 0: .status.size accessor error: x is of the type string, expected int64]",
        ),
        ({"size": -1}, {}, ".status.size: Invalid value: -1: should be a non-negative integer"),
        ({"size": 1}, {"ownerReferences": [{"name": "a"}]}, ""),
    ],
)
def test_a_status_is_checked(api: MemoryAPI, status: Any, metadata: Any, why: str) -> None:
    schema = {
        "type": "object",
        "properties": {"status": {"type": "object", "properties": {"size": {"type": "integer"}}}},
    }
    parts = {"status": {}, "scale": {**PATHS, "statusReplicasPath": ".status.size"}}
    install(api, definition(version(schema={"openAPIV3Schema": schema}, subresources=parts)))
    create(api, "a", {})
    answer = api.ask("PATCH", f"{FOOS}/a/status", {"status": status, "metadata": metadata}, type=MERGE)
    assert answer.code == (422 if why else 200), answer.json
    if why:
        assert answer.json["message"] == f'Foo.example.com "a" is invalid: {why}'


def test_an_apply_to_a_custom_scale_has_conflicts_and_succeeds_only_without_a_change(api: MemoryAPI) -> None:
    """Upstream's converter of custom resources knows no Scale."""
    scaled(api)
    apply(api, {"size": 1}, "one")

    def to_scale(replicas: int, **query: str) -> Any:
        words = "&".join(f"{key}={value}" for key, value in query.items())
        return api.ask("PATCH", f"{FOOS}/a/scale?{words}", {**SCALE, "spec": {"replicas": replicas}}, type=APPLY)

    assert to_scale(2, force="true").json["details"]["causes"][0]["field"] == "fieldManager"
    answer = to_scale(2, fieldManager="two")
    assert (answer.code, answer.json["details"]["causes"]) == (
        409,
        [{"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".spec.replicas"}],
    )
    answer = to_scale(2, fieldManager="two", force="true")
    assert (answer.code, answer.json["message"].split(" (")[0]) == (500, "failed to convert new object")
    assert api.ask("GET", f"{FOOS}/a").json["spec"] == {"size": 1}
    answer = to_scale(1, fieldManager="two")
    assert (answer.code, answer.json["spec"]) == (200, {"replicas": 1})
    missing = api.ask("PATCH", f"{FOOS}/none/scale?fieldManager=m", {"kind": "x"}, type=APPLY)
    assert missing.code == 404


def test_the_scale_of_an_object_without_the_field_can_only_be_set(api: MemoryAPI) -> None:
    scaled(api)
    create(api, "a", {"o": "x"})
    answer = api.ask("GET", f"{FOOS}/a/scale")
    assert (answer.code, answer.json["message"]) == (
        500,
        'Internal error occurred: the spec replicas field ".spec.size" does not exist',
    )
    answer = api.ask("PATCH", f"{FOOS}/a/scale", {"metadata": {"labels": {"a": "b"}}}, type=MERGE)
    why = 'the spec replicas field ".spec.size" cannot be empty'
    assert (answer.code, answer.json["message"]) == (400, why)
    answer = api.ask("PATCH", f"{FOOS}/a/scale?fieldManager=m", {**SCALE, "spec": {"replicas": 2}}, type=APPLY)
    assert (answer.code, answer.json["message"].split(":")[0]) == (500, "failed to create manager for existing fields")
    answer = api.ask("PATCH", f"{FOOS}/a/scale", {"spec": {"replicas": 2}}, type=MERGE)
    assert (answer.code, answer.json["spec"]) == (200, {"replicas": 2})


def test_numbers_are_stored_and_shown_as_go_writes_them(api: MemoryAPI) -> None:
    fields = {"n": {"type": "number"}, "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    install(api, definition(version(spec=fields)))
    written = {
        "1.0": "1",
        "-2.0e2": "-200",
        "9223372036854775807": "9223372036854775807",
        "9223372036854775808": "9223372036854776000",
        "-9223372036854775809": "-9223372036854776000",
        "-9223372036854775808.0": "-9223372036854776000",
        "4611686018427387904.0": "4611686018427388000",
        "-1.234567890123456789e18": "-1234567890123456800",
        "1e19": "10000000000000000000",
        "123456789012345678901": "123456789012345680000",
        "1e21": "1e+21",
        "1.5": "1.5",
        "-0.0": "0",
    }
    for number, wanted in written.items():
        for query in ("?dryRun=All", "?pretty=1&dryRun=All", ""):
            text = (
                '{"apiVersion":"example.com/v1","kind":"Foo","metadata":{"name":"a"},"spec":{"n":N,"any":{"list":[N]}}}'
            )
            answer = api.ask("POST", FOOS + query, text.replace("N", number).encode())
            spec = json.loads(answer.written)["spec"]
            assert (answer.code, json.dumps(spec)) == (201, f'{{"n": {wanted}, "any": {{"list": [{wanted}]}}}}')
        same = api.ask("PATCH", f"{FOOS}/a?fieldManager=m&force=true", text.replace("N", number).encode(), type=APPLY)
        assert json.dumps(json.loads(same.written)["spec"]) == json.dumps(spec)
        for query in ("", "?pretty=1"):
            assert json.dumps(json.loads(api.ask("GET", f"{FOOS}/a{query}").written)["spec"]["n"]) == wanted
        assert api.ask("DELETE", f"{FOOS}/a").code == 200


@pytest.mark.parametrize(
    ("number", "wanted"),
    [
        ("9223372036854775807", []),
        ("9223372036854775808", ["spec.n in body must be of type integer: ", "<nil>: Invalid value"]),
        ("-9223372036854775809", ["spec.n in body must be of type integer: ", "<nil>: Invalid value"]),
        ("9007199254740993.0", ["spec.n in body must be of type integer: "]),  # beyond 53 bits, but an int64
        ("1.5", ["spec.n in body must be of type integer: ", "<nil>: Invalid value"]),
        ("1e3", []),
    ],
)
def test_an_integer_is_what_fits_into_an_int64(api: MemoryAPI, number: str, wanted: list[str]) -> None:
    install(api, definition(version(spec={"n": {"type": "integer"}, "m": {"type": "integer", "format": "int32"}})))
    text = '{"apiVersion":"example.com/v1","kind":"Foo","metadata":{"name":"a"},"spec":{"n":N}}'
    answer = api.ask("POST", FOOS, text.replace("N", number).encode())
    found = (answer.json.get("details") or {}).get("causes", [])
    assert [text in f"{cause['field']}: {cause['message']}" for cause, text in zip(found, wanted, strict=True)] == [
        True
    ] * len(wanted)


@pytest.mark.parametrize(
    ("rule", "spec", "code"),
    [
        ("has(self.a)", {"a": None}, 422),
        ("!has(self.a)", {"a": None}, 201),
        ("!has(self.a) || self.a != 'v'", {"a": "v"}, 422),
        ("self.?a.orValue('none') == 'none'", {"a": None}, 201),
        ("self.?o.?b.orValue('none') == 'none'", {"o": {"b": None}}, 201),
        ("self.a == 'x'", {"a": None}, 422),  # no such key
        ("self.m.all(key, self.m[key] != 'q')", {"m": {"x": None}}, 201),  # a map keeps its nulls
        ("'x' in self.m", {"m": {"x": None}}, 201),
    ],
)
def test_a_null_of_a_property_is_absent_for_a_rule(api: MemoryAPI, rule: str, spec: Object, code: int) -> None:
    text = {**TEXT, "nullable": True}
    fields = {
        "a": text,
        "o": {"type": "object", "properties": {"b": text}},
        "m": {"type": "object", "maxProperties": 5, "additionalProperties": text},
    }
    one = version(spec=fields)
    one["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"] = [{"rule": rule}]
    install(api, definition(one))
    sent = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": spec}
    assert api.ask("POST", FOOS, sent).code == code


def with_list_kind() -> Object:
    crd = definition(version(selectableFields=[{"jsonPath": ".spec.size"}], subresources={"scale": PATHS}))
    crd["spec"]["names"]["listKind"] = "FooCollection"
    return crd


def test_a_list_has_the_kind_that_the_definition_names(api: MemoryAPI) -> None:
    install(api, with_list_kind())
    create(api, "a", {})
    assert [api.ask(method, FOOS).json["kind"] for method in ("GET", "DELETE", "GET")] == ["FooCollection"] * 3


def test_documents_name_the_kind_of_lists_and_the_selectable_fields(api: MemoryAPI) -> None:
    crd = with_list_kind()
    row = Rows(outline(json.dumps({**crd, "status": {"acceptedNames": crd["spec"]["names"]}}).encode())).stored
    openapi = OpenAPIHandler(lambda: groups_of([row]))
    found = [answer(openapi, context(path)) for path in ("/openapi/v3/apis/example.com/v1", "/openapi/v2")]
    third, second = (json.loads(item.body) for item in found if item is not None)
    for schemas in (third["components"]["schemas"], second["definitions"]):
        for kind in ("Foo", "FooCollection"):
            assert schemas[f"com.example.v1.{kind}"]["x-kubernetes-selectable-fields"] == [{"fieldPath": "spec.size"}]
    scale = third["paths"]["/apis/example.com/v1/namespaces/{namespace}/foos/{name}/scale"]
    assert scale["get"]["x-kubernetes-group-version-kind"] == {"group": "example.com", "version": "v1", "kind": "Foo"}
    assert scale["parameters"][0]["description"] == "name of the Foo"
    assert "/apis/example.com/" not in second["paths"]  # upstream describes no group of custom resources


def test_duplicates_in_a_list_with_several_keys_show_these_in_their_order(api: MemoryAPI) -> None:
    item = {"type": "object", "properties": {"z": TEXT, "a": TEXT}, "required": ["z", "a"]}
    keyed = {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["z", "a"]}
    install(api, definition(version(spec={"list": keyed})))
    sent = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}}
    answer = api.ask("POST", FOOS, {**sent, "spec": {"list": [{"z": "1", "a": "2"}] * 2}})
    assert answer.json["details"]["causes"][0]["message"] == 'Duplicate value: {"a":"2","z":"1"}'


def test_a_definition_whose_webhook_has_a_bad_ca_bundle_is_not_established(api: MemoryAPI) -> None:
    certificate, _ = self_signed("example.com")
    client = {"url": "https://example.com/", "caBundle": base64.b64encode(b"none").decode()}
    crd = definition()
    crd["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
    }
    install(api, crd)
    path = f"{DEFINITIONS}/foos.example.com"

    def established() -> Object:
        found = api.ask("GET", path).json["status"]["conditions"]
        return next(item for item in found if item["type"] == "Established")

    condition = established()
    assert (condition["status"], condition["reason"]) == ("False", "InvalidCABundle")
    assert condition["message"] == "The conversion webhook CABundle is invalid"
    assert api.ask("GET", FOOS).code == 404
    client["caBundle"] = base64.b64encode(CUT + certificate).decode()  # one good certificate is enough
    assert (
        api.ask("PATCH", path, {"spec": {"conversion": {"webhook": {"clientConfig": client}}}}, type=MERGE).code == 200
    )
    for _ in range(5):
        api.turn()
    assert (established()["status"], api.ask("GET", FOOS).code) == ("True", 200)
    for bundle, why in ((b"none", "unable to parse bytes as PEM block"), (CUT, MALFORMED)):
        client["caBundle"] = base64.b64encode(bundle).decode()
        change = {"spec": {"conversion": {"webhook": {"clientConfig": client}}}}
        answer = api.ask("PATCH", path, change, type=MERGE)
        assert answer.json["details"]["causes"][0]["message"].endswith(f"unable to load root certificates: {why}")


def keyed(**item: Object) -> Object:
    """The schema of a list with the key ``k``."""
    items = {"type": "object", "properties": {"k": TEXT, **item}, "required": ["k"]}
    return {"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}


def replace_schema(api: MemoryAPI, spec: Object) -> None:
    path = f"{DEFINITIONS}/foos.example.com"
    change = [{"op": "replace", "path": "/spec/versions/0", "value": version(spec=spec)}]
    assert api.ask("PATCH", path, change, type=JSON).code == 200
    for _ in range(5):
        api.turn()


def test_a_reordered_list_with_keys_counts_as_unchanged(api: MemoryAPI) -> None:
    install(api, definition(version(spec={"list": keyed(v=TEXT)})))
    items = [{"k": "a", "v": "long"}, {"k": "b", "v": "x"}, {"k": "c", "v": "longer"}]
    create(api, "a", {"list": items})
    short = {**TEXT, "maxLength": 9, "x-kubernetes-validations": [{"rule": "self.size() < 4"}]}
    replace_schema(api, {"list": {**keyed(v=short), "maxItems": 2}})

    def change(value: list[Object]) -> Any:
        return api.ask("PATCH", f"{FOOS}/a?dryRun=All", {"spec": {"list": value}}, type=MERGE)

    answer = change(items[::-1])
    assert (answer.code, [text.split('"')[1].split(":")[0] for text in answer.warnings]) == (
        200,
        ["spec.list[0].v", "spec.list[2].v"],
    )
    replace_schema(api, {"list": keyed(v=short)})
    answer = change([*items[:2], {"k": "c", "v": "another"}])  # the warnings of the others come all the same
    causes = [cause["field"] for cause in answer.json["details"]["causes"]]
    assert (answer.code, causes) == (422, ["spec.list[2].v"])
    assert [text.split('"')[1].split(":")[0] for text in answer.warnings] == ["spec.list[0].v"]


@pytest.mark.parametrize("value", [5, "x"])
def test_owners_of_fields_go_when_the_type_of_a_value_has_changed(api: MemoryAPI, value: Any) -> None:
    """Upstream cannot compute them for an object that does not fit its schema."""
    install(api, definition(version(spec={"v": {"x-kubernetes-preserve-unknown-fields": True}})))
    assert create(api, "a", {"v": 5})["metadata"]["managedFields"]
    replace_schema(api, {"v": TEXT})
    answer = api.ask("PATCH", f"{FOOS}/a", {"metadata": {"labels": {"a": "b"}}, "spec": {"v": value}}, type=MERGE)
    assert (answer.code, "managedFields" in answer.json["metadata"]) == (200, False)


def test_a_definition_that_changes_ends_the_watches_of_its_objects(api: MemoryAPI) -> None:
    install(api, definition(version(), version("v2", storage=False)))
    create(api, "a", {"size": 1})
    watch = api.ask("GET", f"{FOOS}?watch=1&timeoutSeconds=600")
    path = f"{DEFINITIONS}/foos.example.com"
    assert api.ask("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, type=MERGE).code == 200
    stored = {"status": {"storedVersions": ["v1", "v2"]}}
    assert api.ask("PATCH", f"{path}/status", stored, type=MERGE).json["status"]["storedVersions"] == ["v1", "v2"]
    api.turn()
    assert not watch.finished
    replace_schema(api, {"size": {"type": "integer", "maximum": 5}})
    assert watch.finished
    assert [item["type"] for item in watch.events] == ["ADDED"]


def test_a_definition_in_a_built_in_group_adds_other_versions_only(api: MemoryAPI) -> None:
    crd = definition(version(), version("vfake", storage=False))
    approval = {"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/1"}
    crd["metadata"] = {"name": "foos.networking.k8s.io", "annotations": approval}
    crd["spec"]["group"] = "networking.k8s.io"
    install(api, crd)
    assert api.ask("GET", "/apis/networking.k8s.io/v1/namespaces/n/foos").code == 404
    assert api.ask("GET", "/apis/networking.k8s.io/v1/namespaces/n/ingresses").code == 200
    assert api.ask("GET", "/apis/networking.k8s.io/vfake/namespaces/n/foos").json["kind"] == "FooList"


def test_a_pattern_of_the_version_holds_for_unchanged_objects_too(api: MemoryAPI) -> None:
    both = (version(), version("v2", storage=False))
    install(api, definition(*both))
    create(api, "a", {"size": 1})
    for one in both:
        pattern = {"type": "string", "pattern": "^example.com/v2$"}
        one["schema"]["openAPIV3Schema"]["properties"]["apiVersion"] = pattern
    change: Any = {"spec": {"versions": both}}
    assert api.ask("PATCH", f"{DEFINITIONS}/foos.example.com", change, type=MERGE).code == 200
    for _ in range(5):
        api.turn()
    change = {"spec": {"size": 2}}
    assert api.ask("PATCH", f"{FOOS.replace('/v1/', '/v2/')}/a", change, type=MERGE).code == 200
    answer = api.ask("PATCH", f"{FOOS}/a", {"spec": {"size": 3}}, type=MERGE)
    assert (answer.code, answer.json["details"]["causes"][0]["field"]) == (422, "apiVersion")


def test_errors_are_told_in_the_order_of_the_fields_names(api: MemoryAPI) -> None:
    """As upstream, which stores a definition with sorted properties."""
    short = {**TEXT, "maxLength": 1}
    inner = {"type": "object", "properties": {"z": short, "y": {"type": "integer"}}}
    short_ones = {"properties": {"n": {"maxLength": 1}, "m": {"maxLength": 1}}}
    outer = {"type": "object", "properties": {"n": TEXT, "m": TEXT}, "allOf": [short_ones]}
    fields: Object = {"z": short, "b": inner, "a": outer}
    fields["l"] = {"type": "array", "items": inner}
    install(api, definition(version(spec=fields)))
    spec = {"z": "22", "l": [{"z": "22", "y": "2"}], "b": {"z": "22", "y": "2"}, "a": {"n": "22", "m": "22"}}
    answer = api.ask(
        "POST", FOOS, {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": spec}
    )
    told = [cause["field"] for cause in answer.json["details"]["causes"] if cause["field"].startswith("spec.")]
    assert told == [f"spec.{name}" for name in ("a.m", "a.n", "b.y", "b.z", "l[0].y", "l[0].z", "z")]


def test_whole_numbers_in_a_schema_are_stored_as_integers(api: MemoryAPI) -> None:
    fields = {"n": {"type": "number", "default": 2.0, "enum": [2.0, 2.5]}}
    install(api, definition(version(spec=fields)))
    stored = api.ask("GET", f"{DEFINITIONS}/foos.example.com").json["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert json.dumps(stored["properties"]["spec"]["properties"]["n"]["default"]) == "2"
    assert json.dumps(stored["properties"]["spec"]["properties"]["n"]["enum"]) == "[2, 2.5]"
