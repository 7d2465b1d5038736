"""ClusterTrustBundle (certificates.k8s.io/v1beta1): certificates that pods may trust (KEP-3257).

Upstream: ``pkg/apis/certificates/validation``, ``pkg/registry/certificates/clustertrustbundle``."""

from __future__ import annotations

from functools import partial

from cryptography import x509

from kapi.machinery import der as parser
from kapi.machinery import pem
from kapi.machinery.each import costly
from kapi.machinery.field import Path, too_long
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, selectable, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.metadata import validate_immutable, validate_metadata
from kapi.resources.shared.names import subdomain_name
from kapi.resources.shared.rules import Errors, report
from kapi.resources.shared.signers import validate_signer_name
from kapi.resources.shared.strategies import PlainStrategy, UpdateRules

_SPEC = Path("spec")
_BUNDLE = _SPEC.child("trustBundle")
MAX_BUNDLE_BYTES = 1024 * 1024
_OMITTED = "<value omitted>"


def _bundle_name(signer: str, name: str, prefix: bool) -> tuple[str, ...]:
    """The rule for names: the name of a signer's bundle begins with the signer's name."""
    if not signer:
        if ":" in name:
            return ('ClusterTrustBundle without signer name must not have ":" in its name',)
        return tuple(subdomain_name(name, prefix))
    wanted = signer.replace("/", ":") + ":"
    if not name.startswith(wanted):
        return (f"ClusterTrustBundle for signerName {signer} must be named with prefix {wanted}",)
    return tuple(subdomain_name(name[len(wanted) :], prefix))


class ClusterTrustBundleStrategy(PlainStrategy):
    namespaced = False
    allow_unconditional_update = False
    update_rules = (UpdateRules.NEW_METADATA, UpdateRules.TYPE, UpdateRules.CHANGED_METADATA)

    def _new_metadata(self, obj: Object, errors: Errors) -> None:
        signer = (obj.get("spec") or {}).get("signerName") or ""
        validate_metadata(obj, errors, namespaced=False, name=partial(_bundle_name, signer))

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec, before = obj.get("spec") or {}, (old or {}).get("spec") or {}
        if spec.get("signerName"):
            validate_signer_name(spec["signerName"], _SPEC.child("signerName"), errors)
        bundle = spec.get("trustBundle") or ""
        if old is None or bundle != (before.get("trustBundle") or ""):
            _check_bundle(bundle, errors)

    def check_change(self, obj: Object, old: Object, errors: Errors) -> None:
        new, before = ((one.get("spec") or {}).get("signerName") or "" for one in (obj, old))
        validate_immutable(new, before, _SPEC.child("signerName"), errors)


def _check_bundle(text: str, errors: Errors) -> None:
    data = text.encode()
    if len(data) > MAX_BUNDLE_BYTES:
        errors.append(too_long(_BUNDLE, MAX_BUNDLE_BYTES))
        return
    anchors: dict[bytes, list[int]] = {}
    problems = []
    for i, block in enumerate(costly(pem.blocks(data))):
        if block.kind != "CERTIFICATE":
            problems.append(f"entry {i} has bad block type: {block.kind}")
        elif block.headers:
            problems.append(f"entry {i} has PEM block headers")
        elif problem := _anchor_problem(block.der):
            problems.append(f"entry {i} {problem}")
        else:
            anchors.setdefault(block.der, []).append(i)
    if not problems:
        if not anchors:
            problems.append("at least one trust anchor must be provided")
        for places in anchors.values():
            if len(places) > 1:
                problems.append(f"duplicate trust anchor (indices [{' '.join(map(str, places))}])")
    report(problems, _OMITTED, _BUNDLE, errors)


def _anchor_problem(der: bytes) -> str:
    try:
        certificate = parser.certificate(der)
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except x509.ExtensionNotFound:
        return "does not have the CA bit set"
    except ValueError:
        return "does not parse as X.509"
    return "" if constraints.ca else "does not have the CA bit set"


RESOURCE = Resource(
    *type_meta("certificates.k8s.io/v1beta1", "ClusterTrustBundle"),
    strategy=ClusterTrustBundleStrategy(),
    selectable_fields={"spec.signerName": selectable("spec.signerName")},
    table=printing.table(
        printing.NAME,
        printing.column("SignerName", printing.of_spec("signerName", printing.NONE), ".spec.signerName"),
        of="api.certificates.v1beta1.ClusterTrustBundle",
    ),
    gates=("ClusterTrustBundle",),
)
