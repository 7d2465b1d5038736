"""ConfigMap (v1).

Upstream: ``pkg/apis/core/validation``: ValidateConfigMap; ``pkg/registry/core/configmap``."""

from __future__ import annotations

from kapi.machinery.field import Path, forbidden, invalid, too_long
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.metadata import validate_metadata
from kapi.resources.shared.names import is_config_map_key
from kapi.resources.shared.rules import Errors, same
from kapi.resources.shared.strategies import PlainStrategy

MAX_SIZE = 1024 * 1024  # bytes of values
FROZEN = "field is immutable when `immutable` is set"


def decoded_size(text: str) -> int:
    """The number of bytes of a decoded base64 text."""
    return len(text) * 3 // 4 - text.endswith("=") - text.endswith("==")


def validate_frozen(
    obj: Object, old: Object, parts: tuple[str, ...], errors: Errors, ctx: StrategyContext, exact: str
) -> None:
    """Forbids changes of an object that was made immutable.

    For the field ``exact`` an empty map differs from a missing one in Go; in the store an empty map is missing.
    """
    if old.get("immutable") is not True:
        return
    if obj.get("immutable") is not True:
        errors.append(forbidden(Path("immutable"), FROZEN))
    for part in parts:
        if not same(obj.get(part), old.get(part)) or part == exact and not obj.get(part) and _is_empty_map(ctx, part):
            errors.append(forbidden(Path(part), FROZEN))


def _is_empty_map(ctx: StrategyContext, part: str) -> bool:
    sent = ctx.sent() if ctx.sent is not None else None
    return isinstance(sent, dict) and sent.get(part) == {}


class ConfigMapStrategy(PlainStrategy):
    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        size = 0
        for key, value in data.items():
            for text in is_config_map_key(key):
                errors.append(invalid(Path("data").key(key), key, text))
            if key in binary:
                errors.append(invalid(Path("data").key(key), key, "duplicate of key present in binaryData"))
            size += len((value or "").encode())
        for key, value in binary.items():
            for text in is_config_map_key(key):
                errors.append(invalid(Path("binaryData").key(key), key, text))
            size += decoded_size(value or "")
        if size > MAX_SIZE:
            errors.append(too_long(Path("[]"), MAX_SIZE))  # upstream's path of the root

    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        found = bool(errors)
        validate_frozen(obj, old, ("data", "binaryData"), errors, ctx, "binaryData")
        validate_metadata(obj, errors, shared=found)  # without errors the shared checks have passed already
        self.check(obj, old, errors, ctx)


def _count(obj: Object, now: float) -> int:
    return len(obj.get("data") or ()) + len(obj.get("binaryData") or ())


RESOURCE = Resource(
    *type_meta("v1", "ConfigMap"),
    short_names=("cm",),
    strategy=ConfigMapStrategy(),
    table=printing.table(
        printing.NAME, printing.column("Data", _count, ".data"), printing.AGE, of="api.core.v1.ConfigMap"
    ),
)
