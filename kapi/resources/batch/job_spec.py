"""The spec of a Job, also of a CronJob's template: defaults and validation; lists of completion indexes, ``1,3-5,7``.

Upstream: ``pkg/apis/batch``, ``batch/validation`` (validateIndexesFormat).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kapi.machinery import field
from kapi.machinery.each import each_of, elements
from kapi.machinery.field import OMIT, Path
from kapi.machinery.golang import quote
from kapi.machinery.tree import Object
from kapi.resources.shared.internal import internal
from kapi.resources.shared.names import is_qualified_name
from kapi.resources.shared.options import PodOptions
from kapi.resources.shared.paths import domain_prefixed_path
from kapi.resources.shared.poddefaults import default_pod_template
from kapi.resources.shared.podtemplate import validate_pod_template
from kapi.resources.shared.podwarnings import pod_warnings
from kapi.resources.shared.replicas import validate_counts
from kapi.resources.shared.rules import Errors, at_most, distinct, fits, not_supported, present, report, supported

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}\Z", re.ASCII).match
_MAX_INDEXES, _MAX_PARALLEL_INDEXES = 100_000, 10_000
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_REQUIRED_VALUES = "valid values: [{}]"


class IndexesError(ValueError):
    """An invalid list; the text is upstream's."""


def _index(text: str, completions: int) -> int:
    if not _INTEGER(text):
        raise IndexesError(f"cannot convert string to integer for index: {quote(text)}")
    number = int(text)
    if number >= completions:
        raise IndexesError(f"too large index: {quote(text)}")
    return number


def _interval(text: str, completions: int) -> tuple[int, int]:
    limits = text.split("-")
    if len(limits) > 2:
        raise IndexesError(
            f"the fragment {quote(text)} violates the requirement that an index interval can have at most two parts "
            "separated by '-'"
        )
    first = _index(limits[0], completions)
    if len(limits) == 1:
        return first, first
    last = _index(limits[1], completions)
    if first >= last:
        raise IndexesError(f"non-increasing order, previous: {first}, current: {last}")
    return first, last


def count_indexes(text: str, completions: int) -> int:
    """The number of indexes in the list.  Raises IndexesError."""
    total, previous = 0, None
    for part in text.split(",") if text else ():
        first, last = _interval(part, completions)
        if previous is not None and previous >= first:
            raise IndexesError(f"non-increasing order, previous: {previous}, current: {first}")
        total += last - first + 1
        previous = last
    return total


def _intervals(text: str, completions: int) -> Iterator[tuple[int, int]]:
    for part in text.split(",") if text else ():
        try:
            yield _interval(part, completions)
        except IndexesError:
            continue


def check_apart(completed: str, failed: str, completions: int) -> None:
    """Raises IndexesError when an index is in both lists; invalid intervals are skipped."""
    done, lost = _intervals(completed, completions), _intervals(failed, completions)
    first, second = next(done, None), next(lost, None)
    while first is not None and second is not None:
        if first[0] <= second[1] and second[0] <= first[1]:
            raise IndexesError(f"failedIndexes and completedIndexes overlap at index: {max(first[0], second[0])}")
        if first[0] <= second[0]:
            first = next(done, None)
        else:
            second = next(lost, None)


def default_job_spec(spec: Object) -> None:
    """The common defaults of a Job and a CronJob's template."""
    default_pod_template(spec.setdefault("template", {}))
    for rule in elements(spec, "podFailurePolicy", "rules"):
        for pattern in elements(rule, "onPodConditions"):
            pattern["status"] = pattern.get("status") or "True"


def _choices(values: tuple[str, ...]) -> str:
    return _REQUIRED_VALUES.format(" ".join(quote(value) for value in values))


def _managed_by(name: str, path: Path, errors: Errors) -> None:
    errors.extend(domain_prefixed_path(name, path))
    fits(len(name.encode()), 63, path, errors)


def _completion_mode(spec: Object, path: Path, errors: Errors) -> None:
    mode, completions, parallelism = spec.get("completionMode"), spec.get("completions"), spec.get("parallelism")
    per_index, failed = spec.get("backoffLimitPerIndex"), spec.get("maxFailedIndexes")
    if mode is not None and mode not in ("NonIndexed", "Indexed"):
        errors.append(not_supported(path.child("completionMode"), mode, ("NonIndexed", "Indexed")))
    if mode == "Indexed":
        present(completions, path, errors, "completions", detail="when completion mode is Indexed")
        if parallelism is not None and parallelism > _MAX_INDEXES:
            text = f"must be less than or equal to {_MAX_INDEXES} when completion mode is Indexed"
            errors.append(field.invalid(path.child("parallelism"), parallelism, text))
        here = path.child("maxFailedIndexes")
        if completions is not None and failed is not None and failed > completions:
            errors.append(field.invalid(here, failed, "must be less than or equal to completions"))
        if failed is not None and failed > _MAX_INDEXES:
            errors.append(field.invalid(here, failed, f"must be less than or equal to {_MAX_INDEXES}"))
        if completions is not None and completions > _MAX_INDEXES and per_index is not None:
            limit = (
                f"must be less than or equal to {_MAX_PARALLEL_INDEXES} when completions are above {_MAX_INDEXES} and used with "
                "backoff limit per index"
            )
            if failed is None:
                errors.append(field.required(here, f"must be specified when completions is above {_MAX_INDEXES}"))
            if parallelism is not None and parallelism > _MAX_PARALLEL_INDEXES:
                errors.append(field.invalid(path.child("parallelism"), parallelism, limit))
            if failed is not None and failed > _MAX_PARALLEL_INDEXES:
                errors.append(field.invalid(here, failed, limit))
    if mode in (None, "NonIndexed"):
        for name, value in (("backoffLimitPerIndex", per_index), ("maxFailedIndexes", failed)):
            if value is not None:
                errors.append(field.invalid(path.child(name), value, "requires indexed completion mode"))


def _on_exit_codes(requirement: Object, path: Path, errors: Errors, names: set[str]) -> None:
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    if not operator:
        errors.append(field.required(path.child("operator"), _choices(_OPERATORS)))
    elif operator not in _OPERATORS:
        errors.append(not_supported(path.child("operator"), operator, _OPERATORS))
    name = requirement.get("containerName")
    if name is not None and name not in names:
        text = "must be one of the container or initContainer names in the pod template"
        errors.append(field.invalid(path.child("containerName"), name, text))
    here = path.child("values")
    if not values:
        errors.append(field.invalid(here, requirement.get("values"), "at least one value is required"))
    elif len(values) > 255:
        errors.append(field.too_many(here, len(values), 255))
    seen: set[object] = set()
    for value, place in each_of(here, values):
        if operator == "In" and value == 0:
            errors.append(field.invalid(place, value, "must not be 0 for the In operator"))
        distinct(value, seen, place, errors)
    if any(first > second for first, second in zip(elements(values), values[1:], strict=False)):
        errors.append(field.invalid(here, values, "must be ordered"))


def _on_pod_conditions(patterns: list[Object], path: Path, errors: Errors) -> None:
    at_most(len(patterns), 20, path, errors)
    for pattern, here in each_of(path, patterns):
        kind, status = pattern.get("type", ""), pattern.get("status", "")
        report(is_qualified_name(kind), kind, here, errors, "type")
        supported(status, _STATUSES, here, errors, "status")


def _failure_policy(spec: Object, policy: Object, path: Path, errors: Errors) -> None:
    rules = policy.get("rules") or []
    at_most(len(rules), 20, path, errors, "rules")
    pod = (spec.get("template") or {}).get("spec") or {}
    names = {
        container.get("name", "") for part in ("containers", "initContainers") for container in elements(pod, part)
    }
    for rule, place in each_of(path.child("rules"), rules):
        here, action = place, rule.get("action", "")
        if not action:
            errors.append(field.required(here.child("action"), _choices(_ACTIONS)))
        elif action == "FailIndex":
            if spec.get("backoffLimitPerIndex") is None:
                text = "requires the backoffLimitPerIndex to be set"
                errors.append(field.invalid(here.child("action"), action, text))
        elif action not in _ACTIONS:
            errors.append(not_supported(here.child("action"), action, _ACTIONS))
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or []
        if codes is not None:
            _on_exit_codes(codes, here.child("onExitCodes"), errors, names)
        if conditions:
            _on_pod_conditions(conditions, here.child("onPodConditions"), errors)
        if codes is not None and conditions:
            errors.append(field.invalid(here, OMIT, "specifying both OnExitCodes and OnPodConditions is not supported"))
        if codes is None and not conditions:
            errors.append(field.invalid(here, OMIT, "specifying one of OnExitCodes and OnPodConditions is required"))


def _success_policy(spec: Object, policy: Object, path: Path, errors: Errors) -> None:
    rules, completions = policy.get("rules") or [], spec.get("completions") or 0
    if not rules:
        text = "at least one rules must be specified when the successPolicy is specified"
        errors.append(field.required(path.child("rules"), text))
    at_most(len(rules), 20, path, errors, "rules")
    for i, rule in enumerate(elements(rules)):
        here, count, indexes = path.child("rules").index(i), rule.get("succeededCount"), rule.get("succeededIndexes")
        if count is None and indexes is None:
            errors.append(field.required(here, "at least one of succeededCount or succeededIndexes must be specified"))
        total = 0
        if indexes is not None:
            fits(len(indexes), 64 * 1024, here, errors, "succeededIndexes")
            try:
                total = count_indexes(indexes, completions)
            except IndexesError as error:
                text = f"error parsing succeededIndexes: {error}"
                errors.append(field.invalid(here.child("succeededIndexes"), indexes, text))
        if count is not None:
            place = here.child("succeededCount")
            if count < 0:
                errors.append(field.invalid(place, count, "must be greater than or equal to 0"))
            if count > completions:
                text = f"must be less than or equal to {completions} (the number of specified completions)"
                errors.append(field.invalid(place, count, text))
            if indexes is not None and count > total:
                text = (
                    f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes "
                    "field)"
                )
                errors.append(field.invalid(place, count, text))


def _replacement(spec: Object, path: Path, errors: Errors) -> None:
    policy = spec.get("podReplacementPolicy")
    if policy is None:
        return
    known: tuple[str, ...] = ("Failed", "TerminatingOrFailed")
    if spec.get("podFailurePolicy") is not None:
        known = ("Failed",)
    supported(policy, known, path, errors)


def _restart_policy(spec: Object, path: Path, errors: Errors) -> None:
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy", "")
    here = path.child("template", "spec", "restartPolicy")
    if policy in ("", "Always"):
        errors.append(field.required(here, 'valid values: "OnFailure", "Never"'))
    elif policy not in ("OnFailure", "Never"):
        errors.append(not_supported(here, policy, ("OnFailure", "Never")))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        errors.append(field.invalid(here, policy, 'only "Never" is supported when podFailurePolicy is specified'))


def validate_job_spec(spec: Object, path: Path, errors: Errors, options: PodOptions) -> None:
    """All rules except the selector's, which a CronJob's template does not have."""
    names = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
    validate_counts(spec, path, errors, (*names, "backoffLimitPerIndex", "maxFailedIndexes"))
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        errors.append(field.required(path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"))
    if spec.get("managedBy") is not None:
        _managed_by(spec["managedBy"], path.child("managedBy"), errors)
    _completion_mode(spec, path, errors)
    policy = spec.get("podFailurePolicy")
    if policy is not None:
        _failure_policy(spec, policy, path.child("podFailurePolicy"), errors)
    success = spec.get("successPolicy")
    if success is not None:
        here = path.child("successPolicy")
        if spec.get("completionMode") != "Indexed":
            errors.append(field.invalid(here, internal("SuccessPolicy", success), "requires indexed completion mode"))
        else:
            _success_policy(spec, success, here, errors)
    _replacement(spec, path.child("podReplacementPolicy"), errors)
    validate_pod_template(spec.get("template") or {}, path.child("template"), errors, options)
    _restart_policy(spec, path, errors)


def job_spec_warnings(spec: Object, path: Path) -> list[str]:
    warnings = []
    many = (spec.get("completions") or 0) > _MAX_INDEXES and (spec.get("parallelism") or 0) > _MAX_PARALLEL_INDEXES
    if spec.get("completionMode") == "Indexed" and many:
        warnings.append(
            f"{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "
            "Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        )
    template = spec.get("template") or {}
    here = path.child("template")
    return warnings + pod_warnings(template.get("spec") or {}, template.get("metadata") or {}, here, template=True)
