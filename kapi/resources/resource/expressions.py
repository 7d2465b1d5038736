"""The expressions that select devices (upstream: ``k8s.io/dynamic-resource-allocation/cel``)."""

from __future__ import annotations

from functools import cache, lru_cache

from kapi.cel import CelError, CompileErrors, Environment
from kapi.cel.library.quantity import QUANTITY
from kapi.cel.sizes import Range
from kapi.cel.types import BOOL, DYN, STRING, CelType, StructField, StructType, display, map_of

_MAX_COST = 1_000_000
_MAX_DOMAIN, _MAX_IDENTIFIER, _MAX_VALUES, _MAX_STRING = 63, 32, 32, 64
_DEVICE = StructType(
    "DRADevice",
    {
        "driver": StructField("driver", STRING),
        "allowMultipleAllocations": StructField("allowMultipleAllocations", BOOL),
        "attributes": StructField("attributes", map_of(STRING, map_of(STRING, DYN))),
        "capacity": StructField("capacity", map_of(STRING, map_of(STRING, QUANTITY))),
    },
)


@cache
def _environment() -> Environment:
    return Environment({"device": _DEVICE}, structs=[_DEVICE])


def _size_of(path: tuple[str, ...], type_: CelType) -> Range | None:
    """The maximum sizes of the parts of a device, for cost estimation."""
    if path[:1] != ("device",):
        return None
    match path[1:]:
        case ("driver",):
            return Range(0, _MAX_DOMAIN)
        case ("attributes",) | ("capacity",):
            return Range(0, _MAX_VALUES)
        case ("attributes" | "capacity", "@keys"):
            return Range(0, _MAX_DOMAIN)
        case ("attributes" | "capacity", "@values"):
            return Range(0, _MAX_VALUES)
        case ("attributes" | "capacity", "@values", "@keys"):
            return Range(0, _MAX_IDENTIFIER)
    return Range(0, _MAX_STRING)


@lru_cache(4096)
def check_expression(text: str) -> tuple[str, bool]:
    """The error text, and whether the error is about the cost."""
    try:
        program = _environment().compile(text, size_of=_size_of)
    except CompileErrors as error:
        return error.reason, False
    except CelError as error:
        return f"compilation failed: {error}", False
    result = program.result_type
    if result != BOOL and result.kind != "dyn":
        return f"must evaluate to bool or the unknown type, not {display(result)}", False
    return "", program.cost_estimate.max > _MAX_COST
