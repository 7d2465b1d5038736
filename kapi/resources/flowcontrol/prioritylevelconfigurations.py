"""PriorityLevelConfiguration (flowcontrol.apiserver.k8s.io/v1).

Upstream: ``pkg/apis/flowcontrol/validation``, ``pkg/registry/flowcontrol/prioritylevelconfiguration``."""

from __future__ import annotations

import math
from typing import ClassVar

from kapi.machinery.field import Path, forbidden, invalid, required
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, type_meta
from kapi.resources.flowcontrol.bootstrap import PRIORITY_LEVELS
from kapi.resources.flowcontrol.flowschemas import FlowStatusStrategy, validate_flow_conditions
from kapi.resources.shared import printing
from kapi.resources.shared.internal import internal
from kapi.resources.shared.rules import Errors, not_supported, present
from kapi.resources.shared.strategies import PlainStrategy, UpdateRules

_SPEC = Path("spec")
_EXEMPT = "exempt"
_MAX_QUEUES = 10_000_000
_MAX_HASH_BITS = 60
_PRESERVE_ZERO = "flowcontrol.k8s.io/preserve-zero-concurrency-shares"


def _percent(value: int | None, path: Path, errors: Errors) -> None:
    if value is not None and not 0 <= value <= 100:
        errors.append(invalid(path, value, "must be between 0 and 100, inclusive"))


def _shares(value: int | None, path: Path, errors: Errors) -> None:
    if value is not None and value < 0:
        errors.append(invalid(path, value, "must be a non-negative integer"))


def entropy_bits(deck: int, hand: int) -> int:
    """How many bits of a hash are needed to deal a hand from a deck (upstream: ``shufflesharding.RequiredEntropyBits``)."""
    return math.ceil(math.log2(float(deck)) * hand)


def _queuing(queuing: Object, path: Path, errors: Errors) -> None:
    length, queues, hand = (queuing.get(name) or 0 for name in ("queueLengthLimit", "queues", "handSize"))
    if length <= 0:
        errors.append(invalid(path.child("queueLengthLimit"), length, "must be positive"))
    if queues <= 0:
        errors.append(invalid(path.child("queues"), queues, "must be positive"))
    elif queues > _MAX_QUEUES:
        errors.append(invalid(path.child("queues"), queues, f"must not be greater than {_MAX_QUEUES}"))
    here = path.child("handSize")
    if hand <= 0:
        errors.append(invalid(here, hand, "must be positive"))
    elif hand > queues:
        errors.append(invalid(here, hand, f"should not be greater than queues ({queues})"))
    elif entropy_bits(queues, hand) > _MAX_HASH_BITS:
        bits = f"required entropy bits of deckSize {queues} and handSize {hand}"
        errors.append(invalid(here, hand, f"{bits} should not be greater than {_MAX_HASH_BITS}"))


def _limited(limited: Object, path: Path, errors: Errors) -> None:
    _shares(limited.get("nominalConcurrencyShares"), path.child("nominalConcurrencyShares"), errors)
    response, here = limited.get("limitResponse") or {}, path.child("limitResponse")
    kind, queuing = response.get("type", ""), response.get("queuing")
    if kind == "Reject":
        if queuing is not None:
            errors.append(forbidden(here.child("queuing"), "must be nil if limited.limitResponse.type is not Limited"))
    elif kind == "Queue":
        if queuing is None:
            errors.append(required(here.child("queuing"), "must not be empty if limited.limitResponse.type is Limited"))
        else:
            _queuing(queuing, here.child("queuing"), errors)
    else:
        errors.append(not_supported(here.child("type"), kind, ("Queue", "Reject")))
    _percent(limited.get("lendablePercent"), path.child("lendablePercent"), errors)
    borrowing = limited.get("borrowingLimitPercent")
    if borrowing is not None and borrowing < 0:
        detail = "if specified, must be a non-negative integer"
        errors.append(invalid(path.child("borrowingLimitPercent"), borrowing, detail))


def _fixed(spec: Object, name: str, errors: Errors) -> None:
    """Checks the two mandatory levels, of which only a few fields may change."""
    wanted = PRIORITY_LEVELS.get(name)
    if wanted is None:
        return
    free = name == _EXEMPT
    if ({**spec, "exempt": wanted.get("exempt")} if free else spec) != wanted:
        rest = " except the 'spec.exempt' field" if free else ""
        shown = internal("PriorityLevelConfigurationSpec", spec)
        errors.append(invalid(_SPEC, shown, f"spec of '{name}'{rest} must equal the fixed value"))


class PriorityLevelConfigurationStrategy(PlainStrategy):
    namespaced = False
    update_rules = (UpdateRules.NEW_METADATA, UpdateRules.TYPE)
    generation_parts = ("spec",)
    empty_status: ClassVar[Object | None] = {}
    reset_fields = ("status",)

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        limited, exempt = spec.get("limited"), spec.get("exempt")
        for part, shares in ((exempt, 0), (limited, 30)):
            if part is None:
                continue
            if part.get("nominalConcurrencyShares") is None:  # the API shows it even without a value
                part["nominalConcurrencyShares"] = shares
            part.setdefault("lendablePercent", 0)
        queuing = ((limited or {}).get("limitResponse") or {}).get("queuing")
        if queuing is not None:
            for name, value in (("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)):
                queuing[name] = queuing.get(name) or value

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        metadata, spec = obj["metadata"], obj.get("spec") or {}
        if _PRESERVE_ZERO in (metadata.get("annotations") or {}):
            path = Path("metadata").child("annotations")
            errors.append(forbidden(path, f"annotation '{_PRESERVE_ZERO}' is forbidden"))
        name, kind = metadata.get("name", ""), spec.get("type", "")
        limited, exempt = spec.get("limited"), spec.get("exempt")
        if (name == _EXEMPT) != (kind == "Exempt"):
            errors.append(invalid(_SPEC.child("type"), kind, "must be 'Exempt' if and only if `name` is 'exempt'"))
        if kind == "Exempt":
            if limited is not None:
                errors.append(forbidden(_SPEC.child("limited"), "must be nil if the type is not Limited"))
            if exempt is not None:
                path = _SPEC.child("exempt")
                _shares(exempt.get("nominalConcurrencyShares"), path.child("nominalConcurrencyShares"), errors)
                _percent(exempt.get("lendablePercent"), path.child("lendablePercent"), errors)
        elif kind == "Limited":
            if exempt is not None:
                errors.append(forbidden(_SPEC.child("exempt"), "must be nil if the type is Limited"))
            if present(limited, _SPEC, errors, "limited", detail="must not be empty when type is Limited"):
                _limited(limited, _SPEC.child("limited"), errors)
        else:
            errors.append(not_supported(_SPEC.child("type"), kind, ("Exempt", "Limited")))
        _fixed(spec, name, errors)
        validate_flow_conditions(obj, errors)


_LIMITED = "api.flowcontrol.v1.LimitedPriorityLevelConfiguration"
_QUEUING = "api.flowcontrol.v1.QueuingConfiguration"
RESOURCE = Resource(
    *type_meta("flowcontrol.apiserver.k8s.io/v1", "PriorityLevelConfiguration"),
    strategy=PriorityLevelConfigurationStrategy(),
    status=FlowStatusStrategy,
    table=printing.table(
        printing.NAME,
        printing.field_column("Type", ".spec.type"),
        printing.field_column(
            "NominalConcurrencyShares", ".spec.limited.nominalConcurrencyShares", of=_LIMITED, empty=printing.NONE
        ),
        *(
            printing.field_column(
                name, f".spec.limited.limitResponse.queuing.{field}", of=_QUEUING, empty=printing.NONE
            )
            for name, field in (
                ("Queues", "queues"),
                ("HandSize", "handSize"),
                ("QueueLengthLimit", "queueLengthLimit"),
            )
        ),
        printing.AGE,
        of="api.flowcontrol.v1.PriorityLevelConfiguration",
    ),
)
