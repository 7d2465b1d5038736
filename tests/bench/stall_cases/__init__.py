"""The worst requests we know, by subject.  Each module has ``CASES``: name -> what makes the case."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.bench.stall_cases import (
    crowds,
    custom,
    hundred_thousand,
    large_schemas,
    metadata,
    objects,
    patches,
    pods,
    policies,
    reading,
    webhooks,
    wire,
)
from tests.bench.stall_cases.case import Case, Place


def all_cases() -> Iterator[tuple[str, Callable[[Place], Case]]]:
    """A body is made when its turn comes: together they are large."""
    for module in (
        metadata,
        pods,
        objects,
        policies,
        webhooks,
        custom,
        large_schemas,
        patches,
        wire,
        reading,
        crowds,
        hundred_thousand,
    ):
        yield from module.CASES.items()
