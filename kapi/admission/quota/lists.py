"""Arithmetic on resource lists: name -> quantity as canonical text (upstream: apiserver ``pkg/quota/v1/resources.go``)."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from kapi.machinery import quantities
from kapi.machinery.each import elements, entries
from kapi.machinery.quantities import Amount
from kapi.machinery.sorting import ordered

Amounts = dict[str, str]


def add(one: Amounts, other: Amounts) -> Amounts:
    total = dict(one)
    add_to(total, other)
    return total


def add_to(total: Amounts, other: Amounts) -> None:
    """As ``add``, in place."""
    for name, quantity in entries(other):
        total[name] = quantities.add(total[name], quantity) if name in total else quantity


def growth(new: Amounts, old: Amounts) -> Amounts:
    """The growth from the old list to the new one, without negative values."""
    result: Amounts = {}
    for name in {**new, **old}:
        amount = quantities.parse(new.get(name, "0"))
        more = amount.value - quantities.parse(old.get(name, "0")).value
        result[name] = str(Amount(more, amount.form)) if more > 0 else "0"
    return result


def mask(amounts: Amounts, names: Iterable[str]) -> Amounts:
    selected = set(names)
    return {name: quantity for name, quantity in entries(amounts) if name in selected}


def without_zeros(amounts: Amounts) -> Amounts:
    return {name: quantity for name, quantity in amounts.items() if quantities.parse(quantity).value != 0}


def negative(amounts: Amounts) -> list[str]:
    return ordered(name for name, quantity in amounts.items() if quantities.parse(quantity).value < 0)


def exceeding(amounts: Amounts, bounds: Amounts) -> list[str]:
    """The names whose quantity exceeds the bound."""
    return [name for name, bound in bounds.items() if name in amounts and quantities.compare(amounts[name], bound) > 0]


def equal(one: Amounts, other: Amounts) -> bool:
    return one.keys() == other.keys() and all(quantities.compare(one[name], other[name]) == 0 for name in elements(one))


def whole(quantity: str) -> str:
    """The quantity, rounded up to whole units."""
    amount = quantities.parse(quantity)
    if amount.value.denominator == 1:
        return quantity
    return str(Amount(Fraction(quantities.ceiling(quantity)), amount.form))


def show(amounts: Amounts) -> str:
    """The list as in messages: ``cpu=1,pods=2``."""
    return ",".join(f"{name}={amounts[name]}" for name in ordered(amounts))
