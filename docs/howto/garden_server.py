"""An API server with an API group of its own: ``python garden_server.py``, with the flags of kapi."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from kapi.embedding import (
    Additions,
    APIGroup,
    APIGroupResource,
    APIVersion,
    HookContext,
    RequestContext,
    Response,
    Routes,
    Strategy,
    StrategyContext,
)
from kapi.machinery.field import FieldError, Path, invalid
from kapi.machinery.gvk import GroupResource
from kapi.machinery.status import AlreadyExists, Forbidden
from kapi.tap import main

GROUP = "garden.example.com"
PLANTS = GroupResource(GROUP, "plants")
Object = dict[str, Any]

# -- types: structural OpenAPI schemas, as in a CustomResourceDefinition

PLANT = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "description": "What a plant needs.",
            "required": ["light"],
            "properties": {
                "light": {"type": "string", "enum": ["sun", "shade"], "description": "Where it grows."},
                "distance": {"type": "integer", "minimum": 1, "default": 20, "description": "Centimetres between two."},
            },
        }
    },
}
STATUS = {"type": "object", "properties": {"watered": {"type": "string"}}}
BED_V1 = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "description": "What grows in a bed.",
            "properties": {
                "length": {"type": "integer", "minimum": 1, "description": "Its length in centimetres."},
                "rows": {
                    "type": "array",
                    "maxItems": 20,
                    "description": "The name of a Plant for each row.",
                    "items": {"type": "string"},
                },
            },
        },
        "status": STATUS,
    },
}
BED_V1ALPHA1 = {  # of the time when a bed had one row
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {"type": "object", "properties": {"length": {"type": "integer"}, "plant": {"type": "string"}}},
        "status": STATUS,
    },
}


def convert(bed: Object, api_version: str) -> Object:
    """Between v1alpha1 and v1; further rows are kept in an annotation."""
    spec, annotations = bed["spec"], bed["metadata"].setdefault("annotations", {})
    kept = f"{GROUP}/further-rows"
    if api_version.endswith("/v1"):
        further = annotations.pop(kept, "")
        plant = spec.pop("plant", None)
        rows = ([plant] if plant else []) + [row for row in further.split(",") if row]
        if rows:
            spec["rows"] = rows
    else:
        rows = spec.pop("rows", [])
        if rows:
            spec["plant"] = rows[0]
        if rows[1:]:
            annotations[kept] = ",".join(rows[1:])
    if not annotations:
        del bed["metadata"]["annotations"]
    return bed


# -- strategies: rules that no schema can say


class BedStrategy(Strategy):
    """Gets every bed in its stored version, v1."""

    def default(self, bed: Object) -> None:
        bed["spec"].setdefault("length", 100)

    def validate(self, bed: Object, ctx: StrategyContext) -> list[FieldError]:
        errors = []
        for number, name in enumerate(bed["spec"].get("rows") or []):
            if ctx.listers[PLANTS].get("", name) is None:
                errors.append(invalid(Path("spec").child("rows").index(number), name, "there is no such plant"))
        return errors

    def validate_update(self, bed: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        if bed["spec"]["length"] < old["spec"]["length"]:
            return [invalid(Path("spec").child("length"), bed["spec"]["length"], "a bed does not shrink")]
        return self.validate(bed, ctx)


BEDS = APIGroupResource(
    kind="Bed",
    plural="beds",
    categories=["all"],
    versions=[  # the first is the stored one
        APIVersion(
            name="v1",
            schema=BED_V1,
            columns=[{"name": "Length", "type": "integer", "jsonPath": ".spec.length"}],
            selectable_fields=["spec.length"],
        ),
        APIVersion(name="v1alpha1", schema=BED_V1ALPHA1, deprecated=f"{GROUP}/v1alpha1 Bed is deprecated; use v1"),
    ],
    strategy=BedStrategy(),
    status_strategy=Strategy(),
    convert=convert,
)
GROWN = APIGroupResource(
    kind="Plant", plural="plants", namespaced=False, versions=[APIVersion(name="v1", schema=PLANT)]
)

# -- a filter, a route and a hook


def no_deletion_in_season(ctx: RequestContext) -> Response | Awaitable[Response] | None:
    """Runs for every request that is authorized; None lets it pass."""
    if ctx.info is not None and ctx.info.group == GROUP and ctx.info.verb == "deletecollection":
        raise Forbidden("beds are removed one by one")
    return None


class Pages:
    app = Routes()

    @app.route("/garden/rules", methods=["GET"])
    def rules(self, ctx: RequestContext) -> Response:
        return Response(200, b"Close the gate.\n", b"text/plain; charset=utf-8")


async def plant_the_first(context: HookContext) -> None:
    """The server is ready when this has ended; it stops when this raises."""
    rose = {"apiVersion": f"{GROUP}/v1", "kind": "Plant", "metadata": {"name": "rose"}, "spec": {"light": "sun"}}
    try:
        await context.client.resource(GROUP, "plants").create(rose)
    except AlreadyExists:  # it is there since an earlier start
        pass


ADDITIONS = Additions(
    groups=[APIGroup(name=GROUP, resources=[BEDS, GROWN])],
    filters=[no_deletion_in_season],
    routes=[Pages()],
    post_start_hooks={"plant-the-first": plant_the_first},
)

if __name__ == "__main__":
    main(additions=ADDITIONS)
