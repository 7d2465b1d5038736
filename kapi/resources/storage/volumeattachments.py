"""VolumeAttachment (storage.k8s.io/v1).

Upstream: ``pkg/apis/storage/validation``, ``pkg/registry/storage/volumeattachment``."""

from __future__ import annotations

from typing import ClassVar

from kapi.machinery.each import entries
from kapi.machinery.field import Path, forbidden, invalid, required, too_long
from kapi.machinery.tree import Object, equal
from kapi.resources.definition import Resource, StrategyContext, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.internal import internal
from kapi.resources.shared.metadata import IMMUTABLE
from kapi.resources.shared.names import subdomain_name
from kapi.resources.shared.persistent_volumes import default_volume_source, validate_volume_spec
from kapi.resources.shared.rules import Errors, check, fits, need
from kapi.resources.shared.strategies import PlainStrategy, StatusOnlyStrategy, UpdateRules
from kapi.resources.shared.volume_sources import validate_csi_driver_name

_SPEC, _STATUS = Path("spec"), Path("status")
_SOURCE = _SPEC.child("source")
_MAX_METADATA = 256 * 1024  # bytes of keys and values
_MAX_MESSAGE = 1024  # bytes
_ONE_OF = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


def _source(source: Object, errors: Errors) -> None:
    inline, volume = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    if inline is None and volume is None:
        errors.append(required(_SOURCE, _ONE_OF))
    elif inline is not None and volume is not None:
        errors.append(forbidden(_SOURCE, _ONE_OF))
    elif volume is not None:
        need(volume, _SOURCE, errors, "persistentVolumeName", detail="must specify non empty persistentVolumeName")
    else:
        validate_volume_spec(inline or {}, "", _SOURCE.child("inlineVolumeSpec"), errors, inline=True)


def _status(status: Object, errors: Errors) -> None:
    size = sum(len(key.encode()) + len(value.encode()) for key, value in entries(status, "attachmentMetadata"))
    fits(size, _MAX_METADATA, _STATUS, errors, "attachmentMetadata")
    for name in ("attachError", "detachError"):
        error, path = status.get(name), _STATUS.child(name)
        if error is None:
            continue
        if len((error.get("message") or "").encode()) > _MAX_MESSAGE:
            # upstream names the limit of the metadata here
            errors.append(too_long(path.child("message"), _MAX_METADATA))
        code = error.get("errorCode")
        if code is not None and code < 0:
            errors.append(invalid(path.child("errorCode"), code, "must be between 0 and 2147483647, inclusive"))


class VolumeAttachmentStrategy(PlainStrategy):
    namespaced = False
    allow_unconditional_update = False
    empty_status: ClassVar[Object | None] = {"attached": False}
    reset_fields = ("status",)
    update_rules = (UpdateRules.NEW_METADATA, UpdateRules.TYPE)

    def default(self, obj: Object) -> None:
        inline = ((obj.get("spec") or {}).get("source") or {}).get("inlineVolumeSpec")
        if inline is not None:
            default_volume_source(inline)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec = obj.get("spec") or {}
        source = spec.get("source") or {}
        validate_csi_driver_name(spec.get("attacher") or "", _SPEC.child("attacher"), errors)
        _source(source, errors)
        check(subdomain_name)(spec.get("nodeName") or "", _SPEC.child("nodeName"), errors, ctx)
        _status(obj.get("status") or {}, errors)
        if source.get("persistentVolumeName") is not None:
            path = Path("spec.source.persistentVolumeName")
            check(subdomain_name)(source["persistentVolumeName"], path, errors, ctx)

    def check_change(self, obj: Object, old: Object, errors: Errors) -> None:
        spec = obj.get("spec") or {}
        if not equal(spec, old.get("spec") or {}):
            errors.append(invalid(_SPEC, internal("VolumeAttachmentSpec", spec), IMMUTABLE))


class VolumeAttachmentStatusStrategy(StatusOnlyStrategy):
    def validate_update(self, obj: Object, old: Object, ctx: StrategyContext) -> Errors:
        # upstream applies the rules of the whole object to a status, too
        return self.parent.validate_update(obj, old, ctx)


RESOURCE = Resource(
    *type_meta("storage.k8s.io/v1", "VolumeAttachment"),
    strategy=VolumeAttachmentStrategy(),
    status=VolumeAttachmentStatusStrategy,
    returns_deleted=True,
    table=printing.table(
        printing.NAME,
        printing.field_column("Attacher", ".spec.attacher", format="name"),
        printing.column(
            "PV",
            printing.value("spec", "source", "persistentVolumeName"),
            "persistentVolumeName represents the name of the persistent volume to attach.",
        ),
        printing.field_column("Node", ".spec.nodeName"),
        printing.field_column("Attached", ".status.attached", empty=False, type="boolean"),
        printing.AGE,
        of="api.storage.v1.VolumeAttachment",
    ),
)
