"""Validation of the status of a Job and of its changes (upstream: ``batch/validation`` ValidateJobStatusUpdate).

Newer rules apply only to the parts that an update changes, since stored objects may break them.
"""

from __future__ import annotations

from kapi.machinery import field
from kapi.machinery.each import each, elements
from kapi.machinery.field import OMIT, Path
from kapi.machinery.tree import Object
from kapi.resources.batch.job_spec import IndexesError, check_apart, count_indexes
from kapi.resources.shared.replicas import validate_counts
from kapi.resources.shared.rules import Errors

_STATUS = Path("status")
_CONDITIONS = _STATUS.child("conditions")


def is_true(status: Object, kind: str) -> bool:
    return any(c.get("type") == kind and c.get("status") == "True" for c in elements(status, "conditions"))


def is_false(status: Object, kind: str) -> bool:
    return any(c.get("type") == kind and c.get("status") == "False" for c in elements(status, "conditions"))


class _Change:
    """Two statuses, and the differences between them."""

    def __init__(self, spec: Object, new: Object, old: Object) -> None:
        self.spec, self.new, self.old = spec, new, old
        self.complete, self.failed = is_true(new, "Complete"), is_true(new, "Failed")
        self.finished = self.complete or self.failed
        self.target, self.met = is_true(new, "FailureTarget"), is_true(new, "SuccessCriteriaMet")
        self.complete_changed = self.complete != is_true(old, "Complete")
        self.failed_changed = self.failed != is_true(old, "Failed")
        self.finished_changed = self.finished != (is_true(old, "Complete") or is_true(old, "Failed"))
        self.indexed = spec.get("completionMode") == "Indexed"

    def changed(self, *names: str) -> bool:
        return any(self.new.get(name) != self.old.get(name) for name in names)


def _uncounted(status: Object, errors: Errors) -> None:
    pods = status.get("uncountedTerminatedPods") or {}
    seen = set()
    for part in ("succeeded", "failed"):
        for uid, here in each(_STATUS.child("uncountedTerminatedPods", part), pods):
            if not uid:
                errors.append(field.invalid(here, uid, "must not be empty"))
            elif uid in seen:
                errors.append(field.duplicate(here, uid))
            seen.add(uid)


def _conditions(change: _Change, errors: Errors) -> None:
    def refuse(text: str) -> None:
        errors.append(field.invalid(_CONDITIONS, OMIT, text))

    if (change.complete_changed or change.failed_changed) and change.complete and change.failed:
        refuse("cannot set Complete=True and Failed=true conditions")
    target_changed = change.target != is_true(change.old, "FailureTarget")
    if (change.complete_changed or target_changed) and change.complete and change.target:
        refuse("cannot set Complete=True and FailureTarget=true conditions")


def _times(change: _Change, errors: Errors) -> None:
    status, here = change.new, _STATUS.child("completionTime")
    started, ended = status.get("startTime"), status.get("completionTime")
    if change.complete_changed or change.changed("completionTime"):
        if ended is not None and not change.complete:
            text = "cannot set completionTime when there is no Complete=True condition"
            errors.append(field.invalid(here, ended, text))
        if ended is None and change.complete:
            errors.append(field.required(here, "completionTime is required for Complete jobs"))
    if change.changed("startTime", "completionTime") and started and ended and ended < started:
        errors.append(field.invalid(here, ended, "must be equal to or after `startTime`"))


def _criteria(change: _Change, errors: Errors) -> None:
    def refuse(text: str) -> None:
        errors.append(field.invalid(_CONDITIONS, OMIT, text))

    if (change.failed_changed or change.changed("failedIndexes")) and change.failed and not change.target:
        refuse("cannot set Failed=True condition without the FailureTarget=true condition")
    met_changed = change.met != is_true(change.old, "SuccessCriteriaMet")
    if (change.complete_changed or met_changed) and change.complete and not change.met:
        refuse("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")


def _finished(change: _Change, errors: Errors) -> None:
    status = change.new
    active = status.get("active", 0)
    if (change.finished_changed or change.changed("active")) and active > 0 and change.finished:
        errors.append(field.invalid(_STATUS.child("active"), active, "active>0 is invalid for finished job"))
    resting = change.spec.get("suspend") is True and change.spec.get("completions") == 0
    started = status.get("startTime") is not None
    if (change.finished_changed or change.changed("startTime")) and not resting and not started and change.finished:
        errors.append(field.required(_STATUS.child("startTime"), "startTime is required for finished job"))
    pods = status.get("uncountedTerminatedPods") or {}
    if (change.finished_changed or change.changed("uncountedTerminatedPods")) and change.finished:
        if pods.get("failed") or pods.get("succeeded"):
            shown = {"Succeeded": pods.get("succeeded"), "Failed": pods.get("failed")}
            here = _STATUS.child("uncountedTerminatedPods")
            errors.append(field.invalid(here, shown, "must be empty for finished job"))


def _indexes(change: _Change, errors: Errors) -> None:
    spec, status = change.spec, change.new
    completions, completed, failed = (
        spec.get("completions"),
        status.get("completedIndexes", ""),
        status.get("failedIndexes"),
    )
    completed_changed = completed != change.old.get("completedIndexes", "")
    failed_changed = change.changed("failedIndexes")
    done, lost = _STATUS.child("completedIndexes"), _STATUS.child("failedIndexes")
    if completed_changed and completions is not None:
        _readable(completed, completions, done, "completedIndexes", errors)
    per_index = spec.get("backoffLimitPerIndex")
    if failed_changed and completions is not None and per_index is not None and failed is not None:
        _readable(failed, completions, lost, "failedIndexes", errors)
    if completed_changed and completed and not change.indexed:
        text = "cannot set non-empty completedIndexes when non-indexed completion mode"
        errors.append(field.invalid(done, completed, text))
    if failed_changed and per_index is None and failed is not None:
        text = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        errors.append(field.invalid(lost, failed, text))
    if (failed_changed or completed_changed) and completions is not None and failed is not None:
        try:
            check_apart(completed, failed, completions)
        except IndexesError as error:
            errors.append(field.invalid(lost, failed, str(error)))


def _readable(text: str, completions: int, path: Path, name: str, errors: Errors) -> None:
    try:
        count_indexes(text, completions)
    except IndexesError as error:
        errors.append(field.invalid(path, text, f"error parsing {name}: {error}"))


def _rest(change: _Change, errors: Errors) -> None:
    status = change.new
    terminating, ready, active = status.get("terminating"), status.get("ready"), status.get("active", 0)
    if (change.finished_changed or change.changed("terminating")) and change.finished and (terminating or 0) > 0:
        text = "terminating>0 is invalid for finished job"
        errors.append(field.invalid(_STATUS.child("terminating"), terminating, text))
    if change.changed("ready", "active") and ready is not None and ready > active:
        errors.append(field.invalid(_STATUS.child("ready"), ready, "cannot set more ready pods than active"))
    for other, name in ((change.failed, "Failed"), (change.target, "FailureTarget")):
        if change.met and other:
            text = f"cannot set SuccessCriteriaMet=True and {name}=true conditions"
            errors.append(field.invalid(_CONDITIONS, OMIT, text))
    if change.spec.get("successPolicy") is not None and not change.met and change.complete:
        text = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        errors.append(field.invalid(_CONDITIONS, OMIT, text))


def _irreversible_changes(change: _Change, errors: Errors) -> None:
    """Changes that cannot be undone: terminal conditions, counters, times."""
    spec, new, old = change.spec, change.new, change.old
    for kind in ("Failed", "Complete", "FailureTarget"):
        if is_true(old, kind) and not is_true(new, kind):
            errors.append(field.invalid(_CONDITIONS, OMIT, f"cannot disable the terminal {kind}=True condition"))
    elastic = change.indexed and spec.get("completions") == spec.get("parallelism")
    for name in ("failed",) if elastic else ("failed", "succeeded"):
        if new.get(name, 0) < old.get(name, 0):
            errors.append(field.invalid(_STATUS.child(name), new.get(name, 0), f"cannot decrease the {name} counter"))
    ended, before = new.get("completionTime"), old.get("completionTime")
    if ended is not None and before is not None and ended != before:
        errors.append(field.invalid(_STATUS.child("completionTime"), ended, "field is immutable"))
    resuming = is_true(old, "Suspended") and is_false(new, "Suspended")
    if change.changed("startTime") and not resuming and old.get("startTime") is not None and not spec.get("suspend"):
        text = "field is immutable for unsuspended job once set"
        errors.append(field.invalid(_STATUS.child("startTime"), new.get("startTime"), text))
    met_before = is_true(old, "SuccessCriteriaMet")
    if met_before and not change.met:
        errors.append(field.invalid(_CONDITIONS, OMIT, "cannot disable the SuccessCriteriaMet=True condition"))
    if is_true(old, "Complete") and not met_before and change.met:
        text = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        errors.append(field.invalid(_CONDITIONS, OMIT, text))


def validate_job_status(job: Object, old: Object, errors: Errors) -> None:
    status = job.get("status") or {}
    change = _Change(job["spec"], status, old.get("status") or {})
    validate_counts(status, _STATUS, errors, ("active", "succeeded", "failed", "ready", "terminating"))
    _uncounted(status, errors)
    _conditions(change, errors)
    _times(change, errors)
    _criteria(change, errors)
    _finished(change, errors)
    _indexes(change, errors)
    _rest(change, errors)
    _irreversible_changes(change, errors)
