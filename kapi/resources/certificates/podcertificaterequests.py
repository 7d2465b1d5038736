"""PodCertificateRequest (certificates.k8s.io/v1beta1): a kubelet's request of a certificate for a pod (KEP-4317).

Upstream: ``pkg/apis/certificates/validation``, ``pkg/registry/certificates/podcertificaterequest``."""

from __future__ import annotations

from typing import ClassVar

from kapi.machinery.field import Path, invalid, required, too_long
from kapi.machinery.tree import Object
from kapi.resources.certificates.conditions import fill_transition_times, keep_conditions
from kapi.resources.certificates.pod_certificate_keys import check_keys
from kapi.resources.certificates.pod_certificate_status import DECISIONS, check_status, condition_of
from kapi.resources.definition import Resource, StrategyContext, Subresource, selectable
from kapi.resources.shared import printing
from kapi.resources.shared.metadata import MAX_ANNOTATIONS_BYTES, validate_immutable
from kapi.resources.shared.names import is_label_key, subdomain_name
from kapi.resources.shared.rules import Errors
from kapi.resources.shared.signers import is_kubernetes_signer, validate_signer_name
from kapi.resources.shared.strategies import PlainStatusStrategy, PlainStrategy

_SPEC = Path("spec")
_DAY_SECONDS = 24 * 3600
_SHORTEST, _LONGEST, _MAX_SECONDS_OF_KUBERNETES = 3600, 91 * _DAY_SECONDS, _DAY_SECONDS
_MAX_UID = 128
_SELECTABLE = ("spec.signerName", "spec.podName", "spec.serviceAccountName", "spec.nodeName")


class PodCertificateRequestStrategy(PlainStrategy):
    empty_status: ClassVar[Object | None] = {}
    allow_unconditional_update = False

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {}).setdefault("maxExpirationSeconds", _DAY_SECONDS)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec = obj["spec"]
        signer = spec.get("signerName", "")
        validate_signer_name(signer, _SPEC.child("signerName"), errors)
        _check_annotations(spec.get("unverifiedUserAnnotations") or {}, errors)
        for owner in ("pod", "serviceAccount", "node"):
            name, uid = spec.get(f"{owner}Name", ""), spec.get(f"{owner}UID", "")
            errors += [invalid(_SPEC.child(f"{owner}Name"), name, text) for text in subdomain_name(name)]
            if not uid:
                errors.append(invalid(_SPEC.child(f"{owner}UID"), uid, "must not be empty"))
            if len(uid.encode()) > _MAX_UID:
                errors.append(too_long(_SPEC.child(f"{owner}UID"), _MAX_UID))
        seconds = spec["maxExpirationSeconds"]
        longest = _MAX_SECONDS_OF_KUBERNETES if is_kubernetes_signer(signer) else _LONGEST
        if not _SHORTEST <= seconds <= longest:
            text = f"must be in the range [{_SHORTEST}, {longest}]"
            errors.append(invalid(_SPEC.child("maxExpirationSeconds"), seconds, text))
        check_keys(spec, errors)

    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        validate_immutable(obj.get("spec"), old.get("spec"), _SPEC, errors)


class PodCertificateRequestStatusStrategy(PlainStatusStrategy):
    reset_fields = ("spec",)
    keeps_metadata = True

    def prepare(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        """Restores a decision that was made; sets the transition times of conditions."""
        conditions = (obj.get("status") or {}).get("conditions") or []
        before = (old.get("status") or {}).get("conditions") or []
        keep_conditions(conditions, before, DECISIONS)
        fill_transition_times(conditions, before, ctx.now)

    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        if not errors:  # as upstream: errors of the metadata are reported alone
            check_status(obj, old, ctx.now, errors)
        if not errors:
            errors += ctx.guard_errors


def _check_annotations(annotations: dict[str, str], errors: Errors) -> None:
    path, size = _SPEC.child("unverifiedUserAnnotations"), 0
    for key, value in annotations.items():
        size += len(key.encode()) + len(value.encode())
        lower = key.lower()
        if not lower:
            errors.append(required(path))
            continue
        texts = is_label_key(lower)
        if not texts and "/" not in lower:
            texts = ('must be a domain-prefixed key (such as "acme.io/foo")',)
        errors += [invalid(path, lower, text) for text in texts]
    if size > MAX_ANNOTATIONS_BYTES:
        errors.append(too_long(path, MAX_ANNOTATIONS_BYTES))


def _state(obj: Object, now: float) -> str:
    return condition_of(obj) or "Pending"


_STRATEGY = PodCertificateRequestStrategy()

RESOURCE = Resource(
    group="certificates.k8s.io",
    version="v1beta1",
    kind="PodCertificateRequest",
    plural="podcertificaterequests",
    namespaced=True,
    subresources=(Subresource("status", strategy=PodCertificateRequestStatusStrategy(_STRATEGY)),),
    strategy=_STRATEGY,
    selectable_fields={name: selectable(name) for name in _SELECTABLE},
    table=printing.table(
        printing.NAME,
        printing.column(
            "PodName",
            printing.of_spec("podName"),
            "podName is the name of the pod into which the certificate will be mounted.",
        ),
        printing.column(
            "ServiceAccountName",
            printing.of_spec("serviceAccountName"),
            "serviceAccountName is the name of the service account the pod is running as.",
        ),
        printing.column(
            "NodeName", printing.of_spec("nodeName"), "nodeName is the name of the node the pod is assigned to."
        ),
        printing.column("SignerName", printing.of_spec("signerName"), "signerName indicates the requested signer."),
        printing.column("State", _state, "Is the request Pending, Issued, Denied, or Failed?"),
        printing.AGE,
    ),
    gates=("PodCertificateRequest",),
)
