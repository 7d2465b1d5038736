"""Annotations of nodes that hold JSON, from before there were fields for it.

Upstream: ``pkg/apis/core/validation``: ValidateNodeSpecificAnnotations.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from kapi.machinery.each import entries
from kapi.machinery.field import Path, invalid, required
from kapi.machinery.tree import Object, Tree
from kapi.resources.shared.go_json import value_error
from kapi.resources.shared.rules import Errors

ValidateTaints = Callable[[list[Object], Path, Errors], None]
TAINTS = "scheduler.alpha.kubernetes.io/taints"
AVOID_PODS = "scheduler.alpha.kubernetes.io/preferAvoidPods"
_PATH = Path("metadata").child("annotations")


def validate_node_annotations(node: Object, validate_taints: ValidateTaints, errors: Errors) -> None:
    annotations = (node.get("metadata") or {}).get("annotations") or {}
    if annotations.get(TAINTS):
        _taints(annotations[TAINTS], validate_taints, errors)
    if annotations.get(AVOID_PODS):
        _avoided(annotations[AVOID_PODS], errors)


def _taints(text: str, validate_taints: ValidateTaints, errors: Errors) -> None:
    problem = value_error(text.encode(), "[", "[]core.Taint")
    taints = _read(text) or [] if not problem else []
    problem = problem or next(filter(None, map(_taint_error, taints)), "")
    if problem:
        errors.append(invalid(_PATH, TAINTS, problem))
    elif taints:
        # names of fields may have any case
        read = [{name.lower(): value for name, value in entries(taint)} for taint in taints]
        validate_taints(read, _PATH.child(TAINTS), errors)


def _read(text: str) -> Tree:
    """Parses well-formed JSON; None when it is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        return None


def _taint_error(taint: Tree) -> str:
    problem = value_error(json.dumps(taint).encode(), "{", "core.Taint")
    for name, value in {} if problem else (taint or {}).items():
        if name.lower() in ("key", "value", "effect") and not isinstance(value, str | None):
            kind = value_error(json.dumps(value).encode(), '"', "string").split(" into ")[0]
            problem = problem or f"{kind} into Go struct field Taint.{name.title()} of type string"
    return problem


def _avoided(text: str, errors: Errors) -> None:
    problem = value_error(text.encode(), "{", "v1.AvoidPods")
    if problem:
        errors.append(invalid(_PATH.child("AvoidPods"), AVOID_PODS, problem))
        return
    entries = (_read(text) or {}).get("preferAvoidPods")
    for i, entry in enumerate(entries if isinstance(entries, list) else []):
        signature = (entry or {}).get("podSignature") or {} if isinstance(entry, dict | None) else {}
        path = _PATH.child(AVOID_PODS).index(i).child("PodSignature")
        owner = signature.get("podController")
        if owner is None:
            errors.append(required(path))
        elif owner.get("controller") is not True:
            errors.append(invalid(path.child("PodController", "Controller"), False, "must point to a controller"))
