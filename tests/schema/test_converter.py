"""Trees that come through the converter of unstructured objects: numbers are cut to size, faults have their own words."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.gvk import GroupVersionKind
from kapi.schema import builtin
from kapi.schema.converter import Converter

POD = builtin.type_of(GroupVersionKind("", "v1", "Pod"))


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (1.0, 1),
        (9007199254740993, 1),
        (2**31, -(2**31)),
        (-(2**63), 0),
        (1e100, 0),
        (-3.0, -3),
        (2.0**63, 0),
        (1e19, 0),
        (-1e19, 0),
        (2.0**53 + 2, 2),
    ],
)
def test_numbers_are_cut_to_the_width_of_the_field(given: float, kept: int) -> None:
    assert Converter().decode({"spec": {"priority": given}}, POD)["spec"]["priority"] == kept


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"priority": 1.5}, "cannot convert float64 to int32"),
        ({"priority": "1"}, "unrecognized type: int32"),
        ({"hostNetwork": 1}, "unrecognized type: bool"),
        ({"nodeName": 1}, "cannot convert int64 to string"),
        ({"nodeName": 1.5}, "unrecognized type: string"),
        ({"nodeName": {}}, "unrecognized type: string"),
        ({"containers": {}}, "cannot restore slice from map"),
        ({"nodeSelector": [1]}, "cannot restore map from slice"),
        ({"securityContext": "x"}, "cannot restore struct from: string"),
        ({"overhead": {"cpu": "x"}}, "quantities must match the regular expression "
         "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
    ],
)  # fmt: skip
def test_faults_are_told_in_the_words_of_the_converter(spec: Any, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        Converter().decode({"spec": spec}, POD)
    assert str(caught.value) == why


def test_the_first_fault_is_the_first_in_the_order_of_the_type() -> None:
    spec = {"nodeName": {}, "containers": "None"}
    with pytest.raises(ValueError, match="^cannot restore slice from string$"):
        Converter().decode({"spec": spec}, POD)


def test_unknown_fields_are_sorted() -> None:
    converter = Converter()
    converter.decode({"spec": {"zz": 1, "nodeSelector": {}, "aa": 2}, "more": 1}, POD)
    assert converter.problems == ['unknown field "more"', 'unknown field "spec.aa"', 'unknown field "spec.zz"']


@pytest.mark.parametrize(
    ("number", "type_"),
    [(1 << 63, "float64"), ((1 << 63) - 1, "int64"), (-(1 << 63), "int64"), (-(1 << 63) - 1, "float64"), (0, "int64")],
)
def test_whole_numbers_beyond_64_bits_are_floats(number: int, type_: str) -> None:
    with pytest.raises(ValueError, match=f"^cannot restore struct from: {type_}$"):
        Converter().decode({"spec": number}, POD)
