"""Types from a structured-merge-diff schema in YAML, for its test vectors."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import yaml

from kapi.schema.types import Field, Kind, Type

VECTORS = Path(__file__).parent.parent / "vectors" / "structured-merge-diff"

_SCALARS = {"string": Kind.STRING, "numeric": Kind.NUMBER, "boolean": Kind.BOOLEAN, "untyped": Kind.INT_OR_STRING}


class Parser:
    """The named types of one schema.  Types that allow several forms at once become ANY."""

    def __init__(self, text: str) -> None:
        self.specs = {spec["name"]: spec for spec in yaml.load(text, yaml.CSafeLoader)["types"]}
        self.types: dict[str, Type] = {}

    @classmethod
    @functools.cache
    def load(cls, name: str) -> Parser:
        """Read when it is first needed: it takes a third of a second."""
        return cls((VECTORS / name).read_text())

    def type(self, name: str) -> Type:
        found = self.types.get(name)
        if found is None:
            found = self.types[name] = Type(Kind.ANY, name=name)
            self._fill(found, self.specs.get(name, {}))
        return found

    def _ref(self, ref: dict[str, Any] | None) -> Type | None:
        if not ref:
            return None
        if "namedType" in ref:
            base = self.type(ref["namedType"])
            relation = ref.get("elementRelationship")
            if relation is None or base.kind is Kind.ANY:
                return base
            own = Type(base.kind, name=base.name, fields=base.fields, elem=base.elem)
            own.list_type, own.list_map_keys = base.list_type, base.list_map_keys
            own.map_type = "atomic" if relation == "atomic" else "granular"
            if relation == "atomic":
                own.list_type = "atomic"
            return own
        inline = Type(Kind.ANY)
        self._fill(inline, ref)
        return inline

    def _fill(self, type_: Type, spec: dict[str, Any]) -> None:
        forms = [form for form in ("scalar", "list", "map") if form in spec]
        if len(forms) != 1 or "untyped" in spec:
            type_.map_type = "atomic" if spec.get("map", {}).get("elementRelationship") == "atomic" else "granular"
        elif forms == ["scalar"]:
            type_.kind = _SCALARS[spec["scalar"]]
        elif forms == ["list"]:
            described = spec["list"]
            type_.kind = Kind.LIST
            if described.get("elementRelationship") == "associative":
                type_.list_map_keys = tuple(described.get("keys") or ())
                type_.list_type = "map" if type_.list_map_keys else "set"
            type_.elem = self._ref(described.get("elementType"))
        else:
            described = spec["map"] or {}
            type_.kind = Kind.STRUCT if described.get("fields") else Kind.MAP
            type_.map_type = "atomic" if described.get("elementRelationship") == "atomic" else "granular"
            type_.elem = self._ref(described.get("elementType"))
            for field in described.get("fields") or ():
                resolved = self._ref(field["type"])
                assert resolved is not None
                type_.fields[field["name"]] = Field(
                    field["name"], resolved, has_default="default" in field, default=field.get("default")
                )
