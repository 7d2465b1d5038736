"""The derived types: shapes that OpenAPI alone does not tell."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kapi.machinery.gvk import GroupVersionKind
from kapi.machinery.tree import Object
from kapi.resources.catalogue import BUILT_IN
from kapi.resources.definition import FieldText
from kapi.schema import builtin, derive
from kapi.schema.types import Kind


@pytest.mark.parametrize("row", BUILT_IN, ids=lambda row: f"{row.group}/{row.plural}")
def test_every_served_kind_has_a_type(row) -> None:  # type: ignore[no-untyped-def]
    type_ = builtin.type_of(GroupVersionKind(row.group, row.version, row.kind))
    assert type_.kind is Kind.STRUCT
    assert "metadata" in type_.fields


def test_a_schema_is_restored_from_a_strict_form_that_allows_nulls() -> None:
    """The strict schemas allow null for each field that is not required, and refer to each other in one document."""
    strict = {
        "type": ["object", "null"],
        "required": ["a"],
        "enum": ["b", "null"],
        "properties": {"type": {"type": ["integer", "string", "null"]}, "$ref": {"$ref": "#/$defs/x.y"}},
        "oneOf": [{"type": ["string", "null"]}, 1],
    }
    assert derive.restore(strict) == {
        "type": "object",
        "required": ["a"],
        "enum": ["b", "null"],
        "properties": {"type": {"type": ["integer", "string"]}, "$ref": {"$ref": "#/definitions/x.y"}},
        "oneOf": [{"type": "string"}, 1],
    }


def test_special_types_have_their_kinds() -> None:
    port = builtin.definition("io.k8s.api.core.v1.ServicePort")
    assert port.fields["targetPort"].type.kind is Kind.INT_OR_STRING
    requirements = builtin.definition("io.k8s.api.core.v1.ResourceRequirements")
    limits = requirements.fields["limits"].type
    assert (limits.kind, limits.go_type) == (Kind.MAP, "v1.ResourceList")
    assert limits.elem is not None and limits.elem.kind is Kind.QUANTITY
    meta = builtin.definition("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
    assert meta.fields["creationTimestamp"].type.kind is Kind.TIME
    assert not meta.fields["creationTimestamp"].pointer
    assert meta.fields["creationTimestamp"].omitzero
    assert meta.fields["deletionTimestamp"].pointer


def test_lists_know_how_they_are_merged() -> None:
    ports = builtin.definition("io.k8s.api.core.v1.Container").fields["ports"]
    assert ports.type.list_type == "map"
    assert ports.type.list_map_keys == ("containerPort", "protocol")
    assert (ports.patch_strategy, ports.patch_merge_key) == ("merge", "containerPort")
    assert ports.type.elem is not None
    assert ports.type.elem.fields["protocol"].default == "TCP"


def test_a_type_may_contain_itself() -> None:
    schema = builtin.definition("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
    properties = schema.fields["properties"].type
    assert properties.elem is schema
    assert "JSONSchemaProps" in repr(properties.elem)


def test_unknown_kinds_raise() -> None:
    with pytest.raises(KeyError):
        builtin.type_of(GroupVersionKind("", "v1", "Nothing"))


def test_the_derived_files_are_written_whole(tmp_path: Path) -> None:
    derive.write(tmp_path)
    types = json.loads((tmp_path / derive.TYPES).read_text())
    texts = json.loads((tmp_path / derive.TEXTS).read_text())
    assert set(types) == set(texts)
    pod = types["io.k8s.api.core.v1.Pod"]
    assert "description" not in pod
    assert pod["properties"]["metadata"]["$ref"].startswith("#/definitions/")
    assert "enum" not in pod["properties"]["kind"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([derive.TYPES, derive.TEXTS])


def test_facts_of_fields_are_flags_and_types() -> None:
    text = "# the head\n\n[io.a]\nOne a b:* c=int32 d:*=a:b\nNone\n[io.b]\nOne a:omitempty\n"
    assert derive.read_facts(text) == {
        "io.a.One": {"a": "", "b": "*", "c": "=int32", "d": "*=a:b"},
        "io.a.None": {},
        "io.b.One": {"a": "omitempty"},
    }


def test_values_of_fields_items_and_members_are_listed() -> None:
    text: Object = {"type": "string"}
    definition: Object = {
        "properties": {
            "plain": {**text}, "many": {"items": {**text}}, "named": {"additionalProperties": {**text}},
            "given": {**text}, "odd": {**text},
        }
    }  # fmt: skip
    texts = {"plain": "What it is.", "odd": "Odd."}
    missing = {"T": ['"A type."'], "T.plain": ["A~B is both"], "T.odd+": []}
    entries = ["plain=A~B,C", "many[]=D,E", "named{}=F", 'given?"a~b"', "odd=G"]
    derive.add_openapi_facts("T", definition, texts, entries, missing)
    assert definition["properties"] == {
        "plain": {**text, "enum": ["A B", "C"]}, "many": {"items": {**text, "enum": ["D", "E"]}},
        "named": {"additionalProperties": {**text, "enum": ["F"]}}, "given": {**text, "default": "a b"},
        "odd": {**text, "enum": ["G"]},
    }  # fmt: skip
    assert texts == {
        "": "A type.",
        "plain": 'What it is.\n\nPossible enum values:\n - `"A B"` is both\n - `"C"`',
        "odd": 'Odd.\n\n\nPossible enum values:\n - `"G"`',
    }


def test_every_fact_is_about_a_field_that_exists() -> None:
    definitions, added = builtin.definitions(), derive.added_definitions()
    for name, fields in derive.read_facts(derive.FACTS.read_text()).items():
        more = added.get(name, {}).get("properties", {})
        assert {*fields, *more} == set(definitions[name].get("properties", {})), name


@pytest.mark.parametrize(
    ("definition", "field", "values", "default"),
    [
        ("resource.v1.DeviceToleration", "operator", ["Equal", "Exists"], "Equal"),
        ("resource.v1beta1.DeviceToleration", "operator", ["Equal", "Exists"], "Equal"),
        ("resource.v1beta1.DeviceRequest", "allocationMode", ["All", "ExactCount"], None),
        ("resource.v1beta2.ExactDeviceRequest", "allocationMode", ["All", "ExactCount"], None),
        ("resource.v1alpha3.DeviceTaint", "effect", ["NoExecute", "NoSchedule", "None"], None),
        ("resource.v1alpha3.ResourcePoolStatusRequestSpec", "limit", None, 100),
        ("admissionregistration.v1alpha1.ParamRef", "parameterNotFoundAction", ["Allow", "Deny"], None),
        ("admissionregistration.v1alpha1.MutatingAdmissionPolicySpec", "failurePolicy", ["Fail", "Ignore"], None),
        ("admissionregistration.v1beta1.MutatingAdmissionPolicySpec", "failurePolicy", None, None),
        ("admissionregistration.v1beta1.Mutation", "patchType", ["ApplyConfiguration", "JSONPatch"], None),
    ],
)
def test_values_and_defaults_of_versions_that_are_off(
    definition: str, field: str, values: list[str] | None, default: object
) -> None:
    """As the real server publishes them with --runtime-config=api/all=true."""
    published = builtin.definitions()[f"io.k8s.api.{definition}"]["properties"][field]
    assert (published.get("enum"), published.get("default")) == (values, default)
    listed = "\n\nPossible enum values:\n" in builtin.descriptions()[f"io.k8s.api.{definition}"][field]
    assert listed == (values is not None)


def test_the_text_of_a_column_does_not_list_values() -> None:
    name = FieldText("api.resource.v1.DeviceTaint", "effect")
    assert builtin.field_texts([name])[name].endswith("Consumers must treat unknown effects like None.")


def test_definitions_and_fields_are_added_to_those_of_the_source() -> None:
    source = {
        "Old": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        "Bare": {"type": "object", "properties": {"a": {"type": "string"}}},
    }
    facts = {"Old": {"a": "*"}}
    number = {"type": "integer", "go": "*", "protobuf": 2}
    more = {"properties": {"b": number}}
    derive.add_definitions(source, facts, {"Old": more, "Bare": more, "New": {"required": ["b"], **more}})
    plain = {"type": "integer"}
    assert source == {
        "Old": {"type": "object", "properties": {"a": {"type": "string"}, "b": plain}, "required": ["a"]},
        "Bare": {"type": "object", "properties": {"a": {"type": "string"}, "b": plain}},
        "New": {"type": "object", "properties": {"b": plain}, "required": ["b"]},
    }
    assert facts == {"Old": {"a": "*", "b": "*"}, "Bare": {"a": "", "b": "*"}, "New": {"b": "*"}}
    assert number["protobuf"] == 2  # what was read is not changed


def test_the_build_step_needs_nothing_that_is_installed() -> None:
    """``setup.py`` runs the file by its path, before kapi or anything that it requires is there."""
    code = f"import runpy; runpy.run_path({derive.__file__!r})"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_definition_of_a_version_that_ended_is_that_of_the_later_one() -> None:
    package = "io.k8s.api.admissionregistration"
    names = derive.ENDED[f"{package}.v1beta1"][1].split()
    kinds = [{"group": "admissionregistration.k8s.io", "version": "v1", "kind": "Validation"}]
    before = {f"{package}.v1.{name}": {"$ref": f"#/$defs/{package}.v1.Other"} for name in names}
    definitions = {**before, f"{package}.v1.Validation": {"x-kubernetes-group-version-kind": kinds}}
    derive.add_ended(definitions)
    assert definitions[f"{package}.v1beta1.Validation"] == {
        "x-kubernetes-group-version-kind": [{**kinds[0], "version": "v1beta1"}]
    }
    assert definitions[f"{package}.v1beta1.AuditAnnotation"] == {"$ref": f"#/$defs/{package}.v1beta1.Other"}
    assert kinds[0]["version"] == "v1" and len(definitions) == 2 * len(names)
