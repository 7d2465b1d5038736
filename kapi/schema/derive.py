"""Makes the compact file of Kubernetes 1.36 types that ``builtin.py`` reads; run at build time.

The source is the PyPI package ``kubernetes-validate``, which has upstream's OpenAPI definitions, converted to JSON Schema
2020-12: every type allows null, ``$ref`` points to ``$defs``, apiVersion and kind are enumerations.  These changes are undone
here, and facts of the Go types that OpenAPI lacks (``go_facts.txt``) are added, and what the source lacks
(``added_definitions.json``).

Only the standard library is used: ``setup.py`` runs this file before anything is installed.
Upstream: kube-openapi, the definitions of ``/openapi/v2``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

VERSION = "1.36"
HERE = Path(__file__).resolve().parent
FACTS = HERE / "go_facts.txt"
OPENAPI_FACTS = HERE / "openapi_facts.txt"
VALUES = "Possible enum values:"  # what the list of an enumeration's values in a description begins with
MISSING_TEXTS = HERE / "missing_texts.txt"
#: definitions and fields that the source lacks, in OpenAPI form; under "go" a field has Go's flags, under "protobuf" its number
ADDED = HERE / "added_definitions.json"
#: packages -> another package with the same definitions, and their names.  The source does not have them any more, but releases
#: that can be emulated serve them
ENDED = {
    "io.k8s.api.admissionregistration.v1beta1": (
        "io.k8s.api.admissionregistration.v1",
        """
        AuditAnnotation ExpressionWarning TypeChecking ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
        ValidatingAdmissionPolicyBindingList ValidatingAdmissionPolicyBindingSpec ValidatingAdmissionPolicyList
        ValidatingAdmissionPolicySpec ValidatingAdmissionPolicyStatus Validation
        """,
    )
}
#: structure of all definitions, without texts; with Go's facts under "go"
TYPES = "types.json"
#: descriptions: definition -> {"": its own, field: the field's}
TEXTS = "descriptions.json"

_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
#: as in kapi.machinery.tree, which cannot be imported while a wheel is built
Tree = Any
Object = dict[str, Any]


class DerivationError(Exception):
    """The source definitions are missing or invalid."""


def source_definitions() -> Object:
    """The ``$defs`` of kubernetes-validate for this version.  Raises DerivationError when it is not installed."""
    spec = importlib.util.find_spec("kubernetes_validate")
    if spec is None or not spec.submodule_search_locations:
        raise DerivationError("the types of Kubernetes are made from the package kubernetes-validate: install it first")
    schemas = Path(next(iter(spec.submodule_search_locations))) / "kubernetes-json-schema"
    path = schemas / f"v{VERSION}.0-local" / "_definitions.json"
    if not path.exists():
        raise DerivationError(f"kubernetes-validate has no definitions of Kubernetes {VERSION}: {path} is missing")
    definitions: Object = json.loads(path.read_text())["$defs"]
    return definitions


def restore(node: Tree) -> Tree:
    """A schema node in upstream's published form."""
    if isinstance(node, list):
        return [restore(item) for item in node]
    if not isinstance(node, dict):
        return node
    restored: Object = {}
    for key, value in node.items():
        if key == "type" and isinstance(value, list):
            kinds = [kind for kind in value if kind != "null"]
            restored[key] = kinds[0] if len(kinds) == 1 else kinds
        elif key == "$ref":
            restored[key] = value.replace("#/$defs/", "#/definitions/")
        elif key == "properties":
            restored[key] = {name: restore(item) for name, item in value.items()}
        else:
            restored[key] = restore(value)
    return restored


def restore_definition(name: str, node: Object) -> Object:
    definition: Object = restore(node)
    if name == _QUANTITY:
        definition.pop("oneOf", None)
        definition["type"] = "string"
    elif name == _INT_OR_STRING:
        definition.pop("oneOf", None)
        definition.update({"type": "string", "format": "int-or-string"})
    if "x-kubernetes-group-version-kind" in definition:
        for field in ("apiVersion", "kind"):
            definition.get("properties", {}).get(field, {}).pop("enum", None)
    return definition


def split_texts(definition: Object) -> dict[str, str]:
    """Takes the descriptions out of a definition, in place."""
    texts = {}
    if "description" in definition:
        texts[""] = definition.pop("description")
    for name, schema in definition.get("properties", {}).items():
        if "description" in schema:
            texts[name] = schema.pop("description")
    return texts


def read_facts(text: str) -> dict[str, dict[str, str]]:
    """Definition -> field -> flags and type; the fields in Go's order.  See the head of ``go_facts.txt``."""
    facts: dict[str, dict[str, str]] = {}
    for name, entries in read_entries(text).items():
        fields = facts[name] = {}
        for entry in entries:
            field = re.split("[:=]", entry)[0]
            fields[field] = entry.removeprefix(field).removeprefix(":")
    return facts


def read_entries(text: str) -> dict[str, list[str]]:
    """Definition -> entries, of a text with a line for each definition below the names of its packages in brackets."""
    facts: dict[str, list[str]] = {}
    packages: list[str] = []
    for line in text.splitlines():
        if line.startswith("["):
            packages = line.strip("[]").split()
        elif line and not line.startswith("#"):
            name, *entries = line.split()
            facts.update((f"{package}.{name}", entries) for package in packages)
    return facts


def read_missing_texts(text: str) -> dict[str, list[str]]:
    """Definition, or definition and field with or without ``+``, -> lines.  See the head of ``missing_texts.txt``."""
    found: dict[str, list[str]] = {}
    names: list[str] = []
    for line in text.splitlines():
        if line.startswith("["):
            names = line.strip("[]").split()
            found.update((name, []) for name in names)
        elif not line.startswith("#"):
            for name in names:
                found[name].append(line)
    return found


def add_openapi_facts(
    name: str, definition: Object, texts: dict[str, str], entries: list[str], missing: dict[str, list[str]]
) -> None:
    """Puts enumerations, defaults and missing texts into a definition, in place."""
    if name in missing:
        texts[""] = json.loads(missing[name][0])
    for entry in entries:
        field, equals, values = entry.replace("~", " ").partition("=")
        if "?" in field or not equals:
            field, _, default = entry.replace("~", " ").partition("?")
            definition["properties"][field]["default"] = json.loads(default)
            continue
        plain = field.removesuffix("[]").removesuffix("{}")
        schema = definition["properties"][plain]
        names = values.split(",")
        inner = {"[]": "items", "{}": "additionalProperties"}.get(field[-2:])
        (schema[inner] if inner else schema)["enum"] = names
        if not inner:
            end = "\n" if f"{name}.{plain}+" in missing else ""
            lines = missing.get(f"{name}.{plain}") or missing.get(f"{name}.{plain}+") or ()
            meanings = {value.replace("~", " "): text for value, _, text in (line.partition(" ") for line in lines)}
            listed = "\n".join(
                f' - `"{value}"` {meanings[value]}' if value in meanings else f' - `"{value}"`' for value in names
            )
            texts[plain] = f"{texts.get(plain, '')}{end}\n\n{VALUES}\n{listed}"


def added_definitions() -> dict[str, Object]:
    """Definition -> its keys in OpenAPI form; of a definition that the source has, what is added to it."""
    added: dict[str, Object] = json.loads(ADDED.read_text())
    return added


def add_ended(definitions: Object) -> None:
    """Adds the definitions of removed versions to the source's definitions, in place."""
    for package, (other, names) in ENDED.items():
        for name in names.split():
            text = json.dumps(definitions[f"{other}.{name}"])
            copied = definitions[f"{package}.{name}"] = json.loads(text.replace(f"/{other}.", f"/{package}."))
            for kind in copied.get("x-kubernetes-group-version-kind", ()):
                kind["version"] = package.rpartition(".")[2]


def add_definitions(definitions: Object, facts: dict[str, dict[str, str]], added: dict[str, Object]) -> None:
    """Adds definitions and fields to the source's definitions, in place.  In Go's order new fields are the last."""
    for name, more in added.items():
        source = definitions.get(name, {"type": "object", "properties": {}})
        fields = {field: dict(schema) for field, schema in more["properties"].items()}
        order = facts.setdefault(name, dict.fromkeys(source["properties"], ""))
        for field, schema in fields.items():
            order[field] = schema.pop("go", "")
            schema.pop("protobuf", None)
        definitions[name] = {**source, **more, "properties": {**source["properties"], **fields}}


def derive() -> tuple[Object, dict[str, dict[str, str]]]:
    """All definitions without texts but with Go's facts, and the texts."""
    facts = read_facts(FACTS.read_text())
    source = source_definitions()
    add_ended(source)
    add_definitions(source, facts, added_definitions())
    openapi_facts = read_entries(OPENAPI_FACTS.read_text())
    missing = read_missing_texts(MISSING_TEXTS.read_text())
    definitions: Object = {}
    texts: dict[str, dict[str, str]] = {}
    for name, node in sorted(source.items()):
        definition = restore_definition(name, node)
        texts[name] = split_texts(definition)
        add_openapi_facts(name, definition, texts[name], openapi_facts.get(name, []), missing)
        if name in facts:
            definition["go"] = facts[name]
        definitions[name] = definition
    return definitions, texts


def write(directory: Path) -> None:
    """Writes both files, each atomically."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in zip((TYPES, TEXTS), derive(), strict=True):
        target = directory / name
        scratch = target.with_name(f"{name}.{os.getpid()}.new")  # two processes may find it missing at once
        scratch.write_text(json.dumps(content, separators=(",", ":")))
        scratch.replace(target)


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "data")
