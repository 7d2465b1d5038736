"""The expressions that select devices (upstream: ``k8s.io/dynamic-resource-allocation/cel``)."""

from __future__ import annotations

from functools import cache, lru_cache

from kapi.cel import CompileErrors, Environment, kubernetes_functions
from kapi.cel.functions import declare
from kapi.cel.library.quantity import QUANTITY
from kapi.cel.sizes import Range
from kapi.cel.types import ANY, BOOL, DYN, STRING, CelType, StructField, StructType, map_of
from kapi.cel.values import equal

_MAX_COST = 1_000_000
_MAX_DOMAIN, _MAX_IDENTIFIER, _MAX_VALUES, _MAX_STRING = 63, 32, 32, 64


#: whether an attribute is a value, or a list that contains it; its function does not run: schedulers evaluate selectors
_INCLUDES = declare("includes", "dra_includes_dyn_dyn", "dyn.(dyn) bool", equal)


@cache
def _environment(shared: bool, lists: bool, stored: bool) -> Environment:
    attributes = map_of(STRING, map_of(STRING, DYN if lists else ANY))
    fields = {
        "driver": StructField("driver", STRING),
        "attributes": StructField("attributes", attributes),
        "capacity": StructField("capacity", map_of(STRING, map_of(STRING, QUANTITY))),
    }
    if shared or stored:
        fields["allowMultipleAllocations"] = StructField("allowMultipleAllocations", BOOL)
    device = StructType("kubernetes.DRADevice", fields)
    functions = {**kubernetes_functions(), **({"includes": [_INCLUDES]} if lists or stored else {})}
    return Environment({"device": device}, functions=functions, structs=[device], binding=True)


def _size_of(path: tuple[str, ...], type_: CelType) -> Range | None:
    """The maximum sizes of the parts of a device, for cost estimation."""
    if path[:1] != ("device",):
        return None
    match path[1:]:
        case ():
            return Range(0, 0)
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


def _written(type_: CelType) -> str:
    """A type as Go writes it outside of the compiler's errors."""
    name = "google.protobuf.Any" if type_ == ANY else type_.name
    return f"{name}({', '.join(map(_written, type_.params))})" if type_.params else name


@lru_cache(4096)
def check_expression(text: str, shared: bool = True, lists: bool = False, stored: bool = False) -> tuple[str, bool]:
    """The error text, and whether the error is about the cost.

    ``shared`` and ``lists``: whether devices may be shared (DRAConsumableCapacity), and attributes be lists
    (DRAListTypeAttributes).  One that is ``stored`` may use what the gates would add.
    """
    try:
        accepted = (BOOL, ANY, DYN) if lists else (BOOL, ANY)
        program = _environment(shared, lists, stored).compile(
            text,
            size_of=_size_of,
            mismatch=lambda result: (
                "" if result in accepted else f"must evaluate to bool or the unknown type, not {_written(result)}"
            ),
        )
    except CompileErrors as error:
        return error.reason, False
    return "", program.cost_estimate.max > _MAX_COST
