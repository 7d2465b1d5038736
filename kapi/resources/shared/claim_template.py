"""A claim inside a pod's ephemeral volume (upstream: ``core/validation`` ValidatePersistentVolumeClaimTemplate)."""

from __future__ import annotations

from kapi.machinery import field
from kapi.machinery.field import Path
from kapi.machinery.tree import Object
from kapi.resources.shared.claims import validate_claim_spec
from kapi.resources.shared.metadata import validate_annotations, validate_labels
from kapi.resources.shared.rules import Errors

#: in the order of ObjectMeta's fields; upstream lowers only the first letter of Go's name, hence "uID"
_OTHER_METADATA = (
    ("name", "name"), ("generateName", "generateName"), ("namespace", "namespace"), ("selfLink", "selfLink"),
    ("uid", "uID"), ("resourceVersion", "resourceVersion"), ("generation", "generation"),
    ("creationTimestamp", "creationTimestamp"), ("deletionTimestamp", "deletionTimestamp"),
    ("deletionGracePeriodSeconds", "deletionGracePeriodSeconds"), ("ownerReferences", "ownerReferences"),
    ("finalizers", "finalizers"), ("managedFields", "managedFields"),
)  # fmt: skip


def validate_template_metadata(metadata: Object, path: Path, errors: Errors) -> None:
    """A template's metadata may have labels and annotations only."""
    validate_annotations(metadata.get("annotations") or {}, path.child("annotations"), errors)
    validate_labels(metadata.get("labels") or {}, path.child("labels"), errors)
    for name, shown in _OTHER_METADATA:
        if metadata.get(name):
            errors.append(field.forbidden(path.child(shown), "cannot be set"))


def validate_claim_template(template: Object, path: Path, errors: Errors) -> None:
    validate_template_metadata(template.get("metadata") or {}, path.child("metadata"), errors)
    validate_claim_spec(template.get("spec") or {}, path.child("spec"), errors)
