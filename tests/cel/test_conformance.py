"""The cel-spec conformance vectors, but for what Kubernetes has no use for: protobuf messages and enums.

Of upstream's files proto2, proto3, proto2_ext, enums, wrappers, unknowns, block_ext and dynamic are left out: they are about
protobuf messages, enums, and features outside the language as Kubernetes offers it.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from kapi.cel import CelError, CompileErrors, Environment, EvaluationError
from kapi.cel import types as t
from kapi.cel.arithmetic import Uint
from kapi.cel.functions import table
from kapi.cel.library.encoders import ENCODERS
from kapi.cel.library.kubernetes import KUBERNETES
from kapi.cel.library.maths import MATH
from kapi.cel.standard import STANDARD
from kapi.cel.times import Duration, Timestamp
from kapi.cel.values import Optional, equal, from_key, to_key, type_of
from tests.cel.conformance import Message, read, text

_FOLDER = Path(__file__).parents[1] / "vectors" / "cel-spec"
_FUNCTIONS = table(STANDARD, KUBERNETES, MATH, ENCODERS)

#: vectors that apply but differ, each with the reason
EXPLAINED: dict[str, str] = {
    "network_ext/ipv4/ipv4_equals_ipv6": "Kubernetes refuses IPv4-mapped IPv6 addresses; cel-go's own extension takes them",
    "network_ext/ipv4/ipv4_not_equals_ipv6": "Kubernetes refuses IPv4-mapped IPv6 addresses; cel-go's own extension takes them",
}
#: Kubernetes has version 1 of the formats; the vectors want version 4 of these
_LATER_FORMATS = (
    "scientific notation formatting clause",
    "default precision for fixed-point clause with int",
    "default precision for fixed-point clause with uint",
    "default precision for scientific notation",
    "default precision for scientific notation with int",
    "default precision for scientific notation with uint",
    "positive infinity support for scientific notation",
    "negative infinity support for scientific notation",
    "NaN support for decimal",
    "positive infinity support for decimal",
    "negative infinity support for decimal",
    "positive infinity support for fixed-point",
    "negative infinity support for fixed-point",
    "list support for string",
    "map support for string",
    "map support (all key types)",
    "dyntype support for scientific notation",
    "dyntype NaN/infinity support",
    "dyntype support for lists",
    "dyntype support for maps",
    "scientific notation formatting clause in a string variable",
)
EXPLAINED |= {
    f"string_ext/format/{name}": "Kubernetes has version 2 of the strings, whose formats differ"
    for name in _LATER_FORMATS
}
EXPLAINED |= {
    f"string_ext/value_errors/{name}": "cel-go answers -1 beyond the end since v0.26"
    for name in ("indexof_out_of_range", "lastindexof_out_of_range")
}
EXPLAINED |= {
    f"optionals/optionals/{name}": "Kubernetes leaves cel-go's option off that makes errors of tests for fields of scalars"
    for name in ("map_null_entry_no_such_key", "map_present_key_invalid_field")
}
EXPLAINED |= {
    f"fields/qualified_identifier_resolution/{name}": "cel-go does not check the keys of a map when it makes one"
    for name in ("map_key_float", "map_value_repeat_key", "map_value_repeat_key_heterogeneous")
}
#: what Kubernetes does not have
ABSENT = {"bindings_ext/": "no cel.bind", "string_ext/reverse/": "version 2 of the strings has no reverse"}

_KINDS = {"BOOL": t.BOOL, "INT64": t.INT, "UINT64": t.UINT, "DOUBLE": t.DOUBLE, "STRING": t.STRING, "BYTES": t.BYTES}


def _type(message: Message) -> t.CelType:
    ((kind, values),) = message.items()
    value = values[0]
    if kind == "primitive":
        return _KINDS[value]
    if kind == "wrapper":
        return t.CelType("wrapper", "wrapper", (_KINDS[value],))
    if kind == "null":
        return t.NULL
    if kind == "dyn":
        return t.DYN
    if kind == "well_known":
        return {"TIMESTAMP": t.TIMESTAMP, "DURATION": t.DURATION, "ANY": t.DYN}[value]
    if kind == "list_type":
        return t.list_of(_type(value["elem_type"][0]))
    if kind == "map_type":
        return t.map_of(_type(value["key_type"][0]), _type(value["value_type"][0]))
    if kind == "abstract_type":
        return t.CelType("opaque", text(value, "name"), tuple(_type(item) for item in value.get("parameter_types", [])))
    if kind == "type":
        return t.type_of(_type(value) if value else t.DYN)
    if kind == "type_param":
        return t.DYN
    raise _NotApplicable(kind)


class _NotApplicable(Exception):
    pass


def _value(message: Message) -> Any:
    ((kind, values),) = message.items()
    value = values[0]
    if kind == "int64_value":
        return int(value, 0)
    if kind == "uint64_value":
        return Uint(int(value, 0))
    if kind == "double_value":
        return float(value)
    if kind == "string_value":
        return value.decode()
    if kind == "bytes_value":
        return value
    if kind == "bool_value":
        return value in ("true", "True", "1")
    if kind == "null_value":
        return None
    if kind == "list_value":
        return [_value(item) for item in value.get("values", [])]
    if kind == "map_value":
        return {to_key(_value(item["key"][0])): _value(item["value"][0]) for item in value.get("entries", [])}
    if kind == "type_value":
        return t.CelType("named", value.decode())
    if kind == "object_value":
        return _object(value)
    raise _NotApplicable(kind)


def _object(value: Message) -> Any:
    ((url, inner),) = value.items()
    name = url.strip("[]").rpartition("/")[2]
    fields = inner[0] if inner else {}
    if name in ("google.protobuf.Duration", "google.protobuf.Timestamp"):
        nanos = int(text(fields, "seconds", "0")) * 10**9 + int(text(fields, "nanos", "0"))
        return Duration(nanos) if name.endswith("Duration") else Timestamp(nanos)
    raise _NotApplicable(name)


def _cases() -> list[Any]:
    found = []
    for path in sorted(_FOLDER.glob("*.textproto")):
        for section in read(path)["section"]:
            for case in section.get("test", []):
                name = f"{path.stem}/{text(section, 'name')}/{text(case, 'name')}"
                found.append(pytest.param(case, id=name))
    return found


def _applies(case: Message) -> None:
    source = text(case, "expr")
    if any(
        word in source
        for word in ("TestAllTypes", "NestedTestAllTypes", "google.protobuf.", "proto.", "cel.@", "cel.block")
    ):
        if (
            not any(word in source for word in ("google.protobuf.Timestamp", "google.protobuf.Duration"))
            or "{" in source
        ):
            raise _NotApplicable("protobuf messages")
    if "TestAllTypes" in text(case, "container"):
        raise _NotApplicable("protobuf messages")


def run(case: Message) -> None:
    _applies(case)
    variables: dict[str, t.CelType] = {}
    functions = dict(_FUNCTIONS)
    for entry in case.get("type_env", []):
        if "ident" in entry:
            variables[text(entry, "name")] = _type(entry["ident"][0]["type"][0])
        elif "function" in entry:
            raise _NotApplicable("functions without implementation")
    activation: dict[str, Any] = {}
    for binding in case.get("bindings", []):
        activation[text(binding, "key")] = _value(binding["value"][0]["value"][0])
    expected: Any = True
    if "value" in case:
        expected = _value(case["value"][0])
    if "typed_result" in case and "result" in case["typed_result"][0]:
        expected = _value(case["typed_result"][0]["result"][0])
    checked = text(case, "disable_check") != "true"
    env = Environment(variables, functions=functions, container=text(case, "container"), homogeneous=False)
    fails = "eval_error" in case
    try:
        program = env.compile(text(case, "expr"), checked=checked)
    except CompileErrors:
        if fails:
            return
        raise
    if "typed_result" in case and "deduced_type" in case["typed_result"][0]:
        deduced = _type(case["typed_result"][0]["deduced_type"][0])
        assert t.display(program.result_type) == t.display(deduced)
    if text(case, "check_only") == "true":
        return
    if fails:
        with pytest.raises(CelError):
            program.evaluate(activation)
        return
    try:
        value = program.evaluate(activation)
    except EvaluationError as error:
        raise AssertionError(f"{text(case, 'expr')}: {error}") from error
    assert same(value, expected), f"{text(case, 'expr')}: {value!r} is not {expected!r}"


def same(value: Any, expected: Any) -> bool:
    if isinstance(expected, t.CelType):
        return isinstance(value, t.CelType) and value.name == expected.name
    if isinstance(expected, float) and math.isnan(expected):
        return isinstance(value, float) and math.isnan(value)
    if isinstance(expected, (list, tuple)):
        return len(value) == len(expected) and all(
            same(one, other) for one, other in zip(value, expected, strict=False)
        )
    if isinstance(expected, dict):
        return _typed_keys(value) == _typed_keys(expected) and all(
            same(value[key], item) for key, item in expected.items()
        )
    if isinstance(value, Optional):
        return False
    return type_of(value) == type_of(expected) and equal(value, expected)


def _typed_keys(value: Any) -> set[Any]:
    """1 and 1u are one key of a map and two values."""
    return {(key, type_of(from_key(key)).name) for key in value}


@pytest.mark.parametrize("case", _cases())
def test_vector(case: Message, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.id
    if name in EXPLAINED:
        pytest.xfail(EXPLAINED[name])
    for prefix, reason in ABSENT.items():
        if name.startswith(prefix):
            pytest.xfail(reason)
    try:
        run(case)
    except _NotApplicable as reason:
        pytest.skip(f"does not apply: {reason}")


def test_keys_of_maps_are_compared_with_their_types() -> None:
    assert same({1: "a"}, {1: "a"})
    assert not same({Uint(1): "a"}, {1: "a"})
