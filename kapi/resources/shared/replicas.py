"""Common parts of workloads: numbers or percentages, selectors and templates, counters, table cells, strategies.

Upstream: ``apps/validation``, ``printers/internalversion``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from kapi.machinery import field, golang
from kapi.machinery.field import Path
from kapi.machinery.tree import Object, Tree
from kapi.resources.definition import StrategyContext
from kapi.resources.shared import selectors
from kapi.resources.shared.gated import drop_disabled, gated
from kapi.resources.shared.internal import plain as sorted_maps
from kapi.resources.shared.metadata import validate_immutable
from kapi.resources.shared.names import is_dns1123_label, is_percent
from kapi.resources.shared.options import PodOptions
from kapi.resources.shared.podtemplate import prepare_template, validate_pod_template
from kapi.resources.shared.podwarnings import pod_warnings
from kapi.resources.shared.printing import PrintedColumn, Reader, column, label_selector, value
from kapi.resources.shared.rules import Errors, report, supported
from kapi.resources.shared.strategies import PlainStatusStrategy, PlainStrategy

_SPEC, _STATUS = Path("spec"), Path("status")
NOT_NEGATIVE = "must be greater than or equal to 0"
_NUMBER = re.compile(r"(?:([0-9]+)%|([+-]?[0-9]+))\Z").match
_MISMATCH = "`selector` does not match template `labels`"


# -- numbers or percentages ------------------------------------------------------------------------------------------


def validate_int_or_percent(value: int | str, path: Path, errors: Errors) -> None:
    if isinstance(value, str):
        report(is_percent(value), value, path, errors)
    elif value < 0:
        errors.append(field.invalid(path, value, NOT_NEGATIVE))


def parse_int(text: str) -> int:
    """A 64-bit integer.  Raises ValueError with the text of Go's ``strconv.ParseInt``."""
    try:
        return golang.parse_int(text)
    except golang.NumberError as error:
        raise ValueError(f"strconv.ParseInt: parsing {golang.quote(text)}: {error}") from None


def number_of(value: int | str | None) -> int:
    """The number, also in a percentage or a text; 0 for other values."""
    if isinstance(value, str):
        found = _NUMBER(value)
        try:
            return golang.parse_int(found[1] or found[2]) if found else 0
        except golang.NumberError:
            return 0
    return value or 0


def validate_at_most_all(value: int | str, path: Path, errors: Errors) -> None:
    if isinstance(value, str) and not is_percent(value) and number_of(value) > 100:
        errors.append(field.invalid(path, value, "must not be greater than 100%"))


# -- selector and template ---------------------------------------------------------------------------------------------


def validate_selector(selector: Object | None, path: Path, errors: Errors, what: str) -> None:
    """Checks a selector, which must not be empty; ``what`` is the name of the kind in upstream's text."""
    if selector is None:
        errors.append(field.required(path))
        return
    selectors.validate_label_selector(selector, path, errors)
    if selectors.is_empty(selector):
        errors.append(field.invalid(path, sorted_maps(selector), f"empty selector is invalid for {what}"))


def validate_fixed_selector(obj: Object, old: Object, errors: Errors) -> None:
    now, before = (sorted_maps(each["spec"].get("selector")) for each in (obj, old))
    validate_immutable(now, before, _SPEC.child("selector"), errors)


def validate_fit(selector: Object | None, template: Object, path: Path, errors: Errors) -> None:
    """Checks that the selector matches the template's labels."""
    labels = (template.get("metadata") or {}).get("labels")
    if not selectors.matches(selector, labels or {}):
        errors.append(field.invalid(path.child("metadata", "labels"), sorted_maps(labels), _MISMATCH))


def validate_always_restart(template: Object, path: Path, errors: Errors, what: str) -> None:
    """Checks the template of a controller that keeps pods running: the restart policy must be Always, without a deadline."""
    spec = template.get("spec") or {}
    supported(spec.get("restartPolicy", ""), ("Always",), path, errors, "spec", "restartPolicy")
    if spec.get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {what} is not Supported"
        errors.append(field.forbidden(path.child("spec", "activeDeadlineSeconds"), text))


def validate_template_for_replicas(spec: Object, path: Path, errors: Errors, options: PodOptions) -> None:
    """Selector fit, template and restart policy of a ReplicaSet's or Deployment's spec."""
    selector, template = spec.get("selector"), spec.get("template") or {}
    if selector is not None and not selectors.is_convertible(selector):
        errors.append(field.invalid(path.child("selector"), sorted_maps(selector), "invalid label selector"))
        return
    here = path.child("template")
    validate_fit(selector, template, here, errors)
    validate_pod_template(template, here, errors, options)
    validate_always_restart(template, here, errors, "ReplicaSet")


# -- status ------------------------------------------------------------------------------------------------------------


def validate_counts(status: Object, path: Path, errors: Errors, names: Sequence[str]) -> None:
    for name in names:
        value = status.get(name)
        if value is not None and value < 0:
            errors.append(field.invalid(path.child(name), value, NOT_NEGATIVE))


def validate_at_most_replicas(
    status: Object,
    path: Path,
    errors: Errors,
    names: Sequence[str],
    ready: str = "cannot be greater than readyReplicas",
) -> None:
    """Checks that counters are not above ``replicas``, and available replicas not above ready ones."""
    total = status.get("replicas", 0)
    for name in names:
        value = status.get(name, 0)
        if value > total:
            errors.append(field.invalid(path.child(name), value, "cannot be greater than status.replicas"))
    available = status.get("availableReplicas", 0)
    if available > status.get("readyReplicas", 0):
        errors.append(field.invalid(path.child("availableReplicas"), available, ready))


def validate_collisions(new: Object, old: Object, path: Path, errors: Errors) -> None:
    """Checks that the collision count does not decrease."""
    before, after = old.get("collisionCount"), new.get("collisionCount")
    if before is not None and (after or 0) < before:
        errors.append(field.invalid(path.child("collisionCount"), after or 0, "cannot be decremented"))


# -- warnings ----------------------------------------------------------------------------------------------------------

_POD_HOSTNAMES = "this is used in Pod names and hostnames, which can result in surprising behavior; "


def hostname_warning(obj: Object, text: str = _POD_HOSTNAMES) -> list[str]:
    """A warning about a name that is not a DNS label."""
    texts = is_dns1123_label((obj.get("metadata") or {}).get("name", ""))
    if not texts:
        return []
    return [f"metadata.name: {text}a DNS label is recommended: [{' '.join(texts)}]"]


_TEMPLATE = Path("spec").child("template")


def template_warnings(template: Object | None, path: Path = _TEMPLATE) -> list[str]:
    template = template or {}
    return pod_warnings(template.get("spec") or {}, template.get("metadata") or {}, path, template=True)


# -- table cells -------------------------------------------------------------------------------------------------------


def _containers(obj: Object, path: Sequence[str]) -> list[Object]:
    node: Tree = obj
    for part in path:
        node = (node or {}).get(part)
    return ((node or {}).get("spec") or {}).get("containers") or []


def container_names(*path: str) -> Reader:
    """The names of a template's containers; ``path`` leads to the template."""
    return lambda obj, now: ",".join(container.get("name", "") for container in _containers(obj, path))


def images(*path: str) -> Reader:
    return lambda obj, now: ",".join(container.get("image", "") for container in _containers(obj, path))


def count(*path: str) -> Reader:
    """A number of the object, 0 when absent."""
    return value(*path, empty=0)


def plain(template: str, *readers: Reader) -> Reader:
    """A cell composed of others: ``plain("{}/{}", count(...), count(...))``."""
    return lambda obj, now: template.format(*(read(obj, now) for read in readers))


def template_columns(*path: str, priority: int = 1) -> tuple[PrintedColumn, PrintedColumn]:
    """The columns of the containers in a template of pods, and of their images."""
    return (
        column("Containers", container_names(*path), "Names of each container in the template.", priority=priority),
        column("Images", images(*path), "Images referenced by each container in the template.", priority=priority),
    )


#: the selector of pods
SELECTOR = column(
    "Selector", lambda obj, now: label_selector(obj["spec"].get("selector")), ".spec.selector", priority=1
)


# -- strategies --------------------------------------------------------------------------------------------------------


class ReplicasStrategy(PlainStrategy):
    """The strategy of a type that keeps pods of a template running."""

    reset_fields = ("status",)
    generation_parts: ClassVar[tuple[str, ...]] = ("spec",)
    fixed_selector: ClassVar[bool] = True  # an update is checked against the old selector after all other rules

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        prepare_template(obj["spec"].get("template"), None if old is None else old["spec"].get("template"), ctx)

    def check_change(self, obj: Object, old: Object, errors: Errors) -> None:
        if self.fixed_selector:
            validate_fixed_selector(obj, old, errors)

    def warnings_on_create(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return hostname_warning(obj) + template_warnings(obj["spec"].get("template"))

    def warnings_on_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[str]:
        if obj["metadata"].get("generation") == old["metadata"].get("generation"):
            return []
        return template_warnings(obj["spec"].get("template"))


_GATED_STATUS = (gated("DeploymentReplicaSetTerminatingReplicas", "status.terminatingReplicas"),)


class ReplicasStatusStrategy(PlainStatusStrategy):
    """Checks that counters are not negative, ``limited`` counters not above ``replicas``, and collisions not decreasing."""

    counters: ClassVar[tuple[str, ...]]
    limited: ClassVar[tuple[str, ...]] = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")

    def prepare(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        drop_disabled(_GATED_STATUS, obj, old, ctx)

    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        status = obj.get("status") or {}
        validate_counts(status, _STATUS, errors, self.counters)
        validate_at_most_replicas(status, _STATUS, errors, self.limited)
        validate_collisions(status, old.get("status") or {}, _STATUS, errors)
