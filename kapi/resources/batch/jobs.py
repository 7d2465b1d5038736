"""Job (batch/v1): defaults, generated selector, validation, strategy, table (upstream: ``pkg/registry/batch/job``)."""

from __future__ import annotations

from kapi.machinery import field, tree
from kapi.machinery.ages import human_duration
from kapi.machinery.each import elements
from kapi.machinery.field import FieldError, Path
from kapi.machinery.time import seconds_of
from kapi.machinery.tree import Object
from kapi.resources.batch.job_spec import default_job_spec, job_spec_warnings, validate_job_spec
from kapi.resources.batch.job_status import is_true, validate_job_status
from kapi.resources.definition import Resource, StrategyContext, selectable, type_meta
from kapi.resources.shared import selectors
from kapi.resources.shared.features import gate
from kapi.resources.shared.internal import internal, plain
from kapi.resources.shared.metadata import validate_immutable, validate_metadata, validate_metadata_update
from kapi.resources.shared.names import is_dns1123_label
from kapi.resources.shared.podtemplate import prepare_template, template_options
from kapi.resources.shared.printing import AGE, NAME, column, table
from kapi.resources.shared.replicas import SELECTOR, hostname_warning, template_columns, validate_fit
from kapi.resources.shared.rules import Errors, present, same
from kapi.resources.shared.strategies import PlainStatusStrategy, PlainStrategy

_SPEC = Path("spec")
_UID_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
_NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")
_IMMUTABLE_LATER = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_INTERNAL = {"podFailurePolicy": "PodFailurePolicy", "successPolicy": "SuccessPolicy"}


def _generate_selector(job: Object) -> None:
    """Labels the template with the job's uid and name and selects by them, unless the job has its own selector.

    When defaulting has taken the job's labels from the template, the job gets these labels, too.
    """
    spec, metadata = job["spec"], job["metadata"]
    template = spec.setdefault("template", {}).setdefault("metadata", {})
    shared = metadata.get("labels") is not None and metadata["labels"] is template.get("labels")
    labels = dict(template.get("labels") or {})
    for label in _NAME_LABELS:
        labels.setdefault(label, metadata.get("name", ""))
    for label in _UID_LABELS:
        labels.setdefault(label, metadata.get("uid", ""))
    template["labels"] = labels
    if shared:
        metadata["labels"] = dict(labels)
    selector = dict(spec.get("selector") or {})
    selector["matchLabels"] = {_UID_LABELS[1]: metadata.get("uid", ""), **(selector.get("matchLabels") or {})}
    spec["selector"] = selector


def _has_label(labels: Object, key: str, expected: str, errors: Errors) -> None:
    path = _SPEC.child("template", "metadata", "labels").key(key)
    if key not in labels:
        errors.append(field.required(path, f"must be '{expected}'"))
    elif labels[key] != expected:
        errors.append(field.invalid(path, plain(labels), f"must be '{expected}'"))


def _validate_generated(job: Object, errors: Errors, prefixed: bool) -> None:
    spec, metadata = job["spec"], job["metadata"]
    selector = spec.get("selector")
    if spec.get("manualSelector") or selector is None:
        return
    uid, own = metadata.get("uid", ""), metadata.get("name", "")
    if not uid:
        errors.append(field.required("metadata.uid"))
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    expected: dict[str, str] = {}
    for i in (0, 1) if prefixed else (0,):
        _has_label(labels, _UID_LABELS[i], uid, errors)
        _has_label(labels, _NAME_LABELS[i], own, errors)
        expected |= {_UID_LABELS[i]: uid, _NAME_LABELS[i]: own}
    if selectors.is_convertible(selector) and not selectors.matches(selector, expected):
        errors.append(field.invalid(_SPEC.child("selector"), plain(selector), "`selector` not auto-generated"))


def _may_change_template(old: Object) -> bool:
    """Whether scheduling directives and resources may change: the job is suspended and no pod runs."""
    spec, status = old["spec"], old.get("status") or {}
    is_stopped = status.get("startTime") is None or is_true(status, "Suspended")
    return bool(spec.get("suspend") and is_stopped and not status.get("active"))


def _validate_completions(spec: Object, old: Object, errors: Errors) -> None:
    now, before, path = spec.get("completions"), old.get("completions"), _SPEC.child("completions")
    if spec.get("completionMode") != "Indexed":
        validate_immutable(now, before, path, errors)
    elif now != before and now is not None and now != spec.get("parallelism"):
        errors.append(field.invalid(path, now, "can only be modified in tandem with spec.parallelism"))


def _with_directives(template: Object, old: Object) -> Object:
    """The old template with the new one's scheduling directives."""
    changed = tree.copy(old)
    pod, spec = changed.setdefault("spec", {}), template.get("spec") or {}
    now, before = spec.get("affinity"), pod.get("affinity")
    node = (now or {}).get("nodeAffinity")
    if now is None and before is not None:
        before.pop("nodeAffinity", None)
        if not before:
            pod.pop("affinity")
    elif now is not None:
        pod["affinity"] = {**(before or {})}
        pod["affinity"].pop("nodeAffinity", None)
        if node is not None:
            pod["affinity"]["nodeAffinity"] = node
    for part in ("nodeSelector", "tolerations", "schedulingGates"):
        pod.pop(part, None)
        if part in spec:
            pod[part] = spec[part]
    metadata, given = changed.setdefault("metadata", {}), template.get("metadata") or {}
    for part in ("annotations", "labels"):
        metadata.pop(part, None)
        if part in given:
            metadata[part] = given[part]
    return dict(changed)


def _with_resources(pod: Object, old: Object) -> Object:
    """The old pod spec with the new one's container resources."""
    changed: Object = tree.copy(old)
    for part in ("containers", "initContainers"):
        now, before = pod.get(part) or [], changed.get(part) or []
        for container, previous in zip(now, before, strict=True) if len(now) == len(before) else ():
            if container.get("name") == previous.get("name"):
                previous["resources"] = container.get("resources") or {}
    return changed


class JobStrategy(PlainStrategy):
    reset_fields = ("status",)
    empty_status = {}

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if spec.get("parallelism") is None:
            spec.setdefault("completions", 1)
            spec["parallelism"] = 1
        if spec.get("backoffLimit") is None:
            spec["backoffLimit"] = 6 if spec.get("backoffLimitPerIndex") is None else 2147483647
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
        metadata = obj.setdefault("metadata", {})
        if labels and not metadata.get("labels"):
            metadata["labels"] = labels  # one object, so that both get the generated labels
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("suspend", False)
        if spec.get("podReplacementPolicy") is None:
            failing = spec.get("podFailurePolicy") is not None
            spec["podReplacementPolicy"] = "Failed" if failing else "TerminatingOrFailed"
        spec.setdefault("manualSelector", False)
        default_job_spec(spec)

    def default_garbage_collection(self, obj: Object, ctx: StrategyContext) -> str:
        return "orphan"

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        if not obj["spec"].get("manualSelector"):
            _generate_selector(obj)
        super().prepare_for_create(obj, ctx)
        obj["metadata"]["generation"] = 1

    def canonicalize(self, obj: Object) -> None:
        """Stores the labels that decoding would take from the template when there are none."""
        labels = (obj["spec"]["template"].get("metadata") or {}).get("labels")
        if labels and not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)

    def warnings_on_delete(self, options: Object) -> list[str]:
        if options.get("propagationPolicy") is not None or options.get("orphanDependents") is not None:
            return []
        return [
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them "
            "or set propagationPolicy=Orphan to suppress this warning"
        ]

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        prepare_template(obj["spec"].get("template"), None if old is None else old["spec"].get("template"), ctx)

    def prepare_for_update(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(obj, old, ctx)
        if not tree.equal(obj["spec"], old["spec"]):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def _validate_spec(self, job: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec = job["spec"]
        options = template_options(ctx, None if old is None else old["spec"].get("template"))
        validate_job_spec(spec, _SPEC, errors, options)
        selector, template = spec.get("selector"), spec.get("template") or {}
        if present(selector, _SPEC, errors, "selector"):
            relaxed = old is not None and selectors.has_invalid_values(old["spec"].get("selector"))
            selectors.validate_label_selector(selector, _SPEC.child("selector"), errors, allow_invalid_values=relaxed)
        if selector is None or selectors.is_convertible(selector):
            validate_fit(selector, template, _SPEC.child("template"), errors)

    def _validate_job(self, job: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        validate_metadata(job, errors)
        prefixed = True
        if old is not None:
            labels = ((old["spec"].get("template") or {}).get("metadata") or {}).get("labels") or {}
            prefixed = _UID_LABELS[1] in labels and _NAME_LABELS[1] in labels
        _validate_generated(job, errors, prefixed)
        self._validate_spec(job, old, errors, ctx)
        completions = job["spec"].get("completions") or 0
        if job["spec"].get("completionMode") == "Indexed" and completions > 0:
            own = job["metadata"].get("name", "")
            hostname = f"{own}-{completions - 1}"
            if is_dns1123_label(hostname):
                text = f"will not able to create pod with invalid DNS label: {hostname}"
                errors.append(field.invalid("metadata.name", own, text))

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        errors: list[FieldError] = []
        self._validate_job(obj, None, errors, ctx)
        return errors

    def validate_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        errors: list[FieldError] = []
        self._validate_job(obj, old, errors, ctx)
        validate_metadata_update(obj, old, errors)
        self._validate_spec(obj, old, errors, ctx)  # upstream checks the spec twice
        spec, before = obj["spec"], old["spec"]
        _validate_completions(spec, before, errors)
        selector = plain(spec.get("selector"))
        validate_immutable(selector, plain(before.get("selector")), _SPEC.child("selector"), errors)
        self._validate_template_change(spec, old, errors, ctx)
        for part in _IMMUTABLE_LATER:
            value = spec.get(part)
            if not same(value, before.get(part)):
                shown = internal(_INTERNAL[part], value) if part in _INTERNAL else value
                errors.append(field.invalid(_SPEC.child(part), shown, "field is immutable"))
        return errors

    def _validate_template_change(self, spec: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        template, before = spec.get("template") or {}, old["spec"].get("template") or {}
        if tree.equal(template, before):
            return
        free = _may_change_template(old)
        directives, resources = free, free
        if not gate(ctx, "MutableSchedulingDirectivesForSuspendedJobs"):
            started = (old.get("status") or {}).get("startTime") is not None
            directives = bool(old["spec"].get("suspend")) and not started
        if not gate(ctx, "MutablePodResourcesForSuspendedJobs"):
            resources = False
        if directives:
            before = _with_directives(template, before)
        if old["spec"].get("suspend") and resources:
            pod = template.get("spec") or {}
            if not tree.equal(pod, _with_resources(pod, before.get("spec") or {})):
                shown = internal("PodSpec", pod)
                errors.append(field.invalid(_SPEC.child("template.spec"), shown, "field is immutable"))
        elif not tree.equal(template, before):
            shown = internal("PodTemplateSpec", template)
            errors.append(field.invalid(_SPEC.child("template"), shown, "field is immutable"))

    def warnings_on_create(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return hostname_warning(obj) + job_spec_warnings(obj["spec"], _SPEC)

    def warnings_on_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[str]:
        if obj["metadata"].get("generation") == old["metadata"].get("generation"):
            return []
        return job_spec_warnings(obj["spec"], _SPEC)


class JobStatusStrategy(PlainStatusStrategy):
    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        validate_job_status(obj, old, errors)


def _condition(job: Object, now: float) -> str:
    status = job.get("status") or {}
    first: dict[str, str] = {}
    for entry in elements(status, "conditions"):
        first.setdefault(entry.get("type", ""), entry.get("status", ""))
    for kind in ("Complete", "Failed"):
        if first.get(kind) == "True":
            return kind
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if first.get(kind) == "True":
            return kind
    return "Running"


def _completions(job: Object, now: float) -> str:
    spec, done = job["spec"], (job.get("status") or {}).get("succeeded", 0)
    if spec.get("completions") is not None:
        return f"{done}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _duration(job: Object, now: float) -> str:
    status = job.get("status") or {}
    if not status.get("startTime"):
        return ""
    started, ended = seconds_of(status["startTime"]), status.get("completionTime")
    return human_duration((seconds_of(ended) if ended else now) - started)


_succeeded = selectable("status.succeeded")

RESOURCE = Resource(
    *type_meta("batch/v1", "Job"),
    categories=("all",),
    strategy=JobStrategy(),
    status=JobStatusStrategy,
    table=table(
        NAME,
        column("Status", _condition, "Status of the job."),
        column("Completions", _completions, ".status.succeeded"),
        column("Duration", _duration, "Time required to complete the job."),
        AGE,
        *template_columns("spec", "template"),
        SELECTOR,
        of="api.batch.v1.Job",
    ),
    selectable_fields={"status.successful": lambda obj: _succeeded(obj) or "0"},
    unsupported_field='field label "{}" not supported for Job',
)
