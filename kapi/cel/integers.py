"""The integers of CEL and their limits (upstream: cel-go ``common/types``, ``int.go`` and ``uint.go``)."""

from __future__ import annotations

INT_MAX = 2**63 - 1
INT_MIN = -(2**63)
UINT_MAX = 2**64 - 1


class Uint(int):
    """An unsigned integer; it equals an int of the same value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{int(self)}u"
