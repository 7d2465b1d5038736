"""PodCertificateRequest (certificates.k8s.io/v1beta1): a kubelet's request of a certificate for a pod (KEP-4317).

The requester proves that it has the private key.  A signer decides once, and the decision is final.
Upstream: ``pkg/apis/certificates/validation``, ``pkg/registry/certificates/podcertificaterequest``.
"""

from __future__ import annotations

import base64
import binascii
import datetime
from typing import ClassVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

from kapi.machinery import der, pem
from kapi.machinery.each import costly, elements
from kapi.machinery.field import OMIT, Path, invalid, required, too_long
from kapi.machinery.mail import is_address
from kapi.machinery.time import seconds_of
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, selectable, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.metadata import validate_conditions, validate_immutable, validate_user_annotations
from kapi.resources.shared.names import subdomain_name
from kapi.resources.shared.rules import Errors, fits, not_supported, report, same
from kapi.resources.shared.signers import is_kubernetes_signer, validate_signer_name
from kapi.resources.shared.strategies import PlainStatusStrategy, PlainStrategy

_SPEC = Path("spec")
_REQUEST, _KEY, _PROOF = (
    _SPEC.child("stubPKCS10Request"),
    _SPEC.child("pkixPublicKey"),
    _SPEC.child("proofOfPossession"),
)
_MAX_BYTES = 10 * 1024
_CURVES = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)
_RSA_BITS = (3072, 4096)
DECISIONS = ("Issued", "Denied", "Failed")
_STATUS = Path("status")
_CHAIN, _CONDITIONS = _STATUS.child("certificateChain"), _STATUS.child("conditions")
_MAX_CHAIN = 100 * 1024
_HOUR = datetime.timedelta(hours=1)
_DAY_SECONDS = 24 * 3600
_SHORTEST, _LONGEST, _MAX_SECONDS_OF_KUBERNETES = 3600, 91 * _DAY_SECONDS, _DAY_SECONDS
_MAX_UID = 128
_SELECTABLE = ("spec.signerName", "spec.podName", "spec.serviceAccountName", "spec.nodeName")


def check_keys(spec: Object, errors: Errors) -> None:
    """Checks key and proof: a signed certificate request has both; the older form is a key and a signature of the pod's uid."""
    request, key, proof = (_decoded(spec, path) for path in (_REQUEST, _KEY, _PROOF))
    if bool(request) == bool(key) or bool(key) != bool(proof):
        text = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"
        errors.append(invalid(_SPEC, OMIT, text))
        return
    for path, data in ((_REQUEST, request), (_KEY, key), (_PROOF, proof)):
        if len(data) > _MAX_BYTES:
            errors.append(too_long(path, _MAX_BYTES))
            return
    if request:
        _check_request(request, errors)
    else:
        _check_key_and_proof(key, proof, spec.get("podUID", ""), errors)


def requested_key(spec: Object) -> PublicKeyTypes | None:
    """The key for which a certificate is requested; None when it cannot be decoded."""
    try:
        if spec.get("stubPKCS10Request"):
            return der.signing_request(_decoded(spec, _REQUEST)).public_key()
        return der.public_key(_decoded(spec, _KEY))
    except (ValueError, UnsupportedAlgorithm):
        return None


def _decoded(spec: Object, path: Path) -> bytes:
    try:
        return base64.b64decode(spec.get(str(path).rpartition(".")[2]) or "", validate=True)
    except binascii.Error:
        return b""


def _check_request(data: bytes, errors: Errors) -> None:
    try:
        request = der.signing_request(data)
        key = request.public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        errors.append(invalid(_REQUEST, OMIT, "must be a valid PKCS#10 CSR"))
        return
    if _check_kind(key, _REQUEST, OMIT, "P256, P384, or P521", errors) and not der.is_signed(request):
        errors.append(invalid(_REQUEST, OMIT, "invalid signature"))


def _check_kind(key: PublicKeyTypes, path: Path, value: object, curves: str, errors: Errors) -> bool:
    """``value``: of the error for a key of another kind; ``curves``: upstream's text of those allowed."""
    if isinstance(key, ec.EllipticCurvePublicKey):
        if isinstance(key.curve, _CURVES):
            return True
        problem: tuple[object, str] = (f"curve P-{key.curve.key_size}", f"elliptic public keys must use curve {curves}")
    elif isinstance(key, rsa.RSAPublicKey):
        if key.key_size in _RSA_BITS:
            return True
        problem = (f"{key.key_size}-bit modulus", "RSA keys must have modulus size 3072 or 4096")
    elif isinstance(key, ed25519.Ed25519PublicKey):
        return True
    else:
        problem = (value, "unknown public key type; supported types are Ed25519, ECDSA, and RSA")
    errors.append(invalid(path, *problem))
    return False


def _check_key_and_proof(data: bytes, proof: bytes, uid: str, errors: Errors) -> None:
    encoded = base64.b64encode(data).decode()
    try:
        key = der.public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        errors.append(invalid(_KEY, encoded, "must be a valid PKIX-serialized public key"))
        return
    if not _check_kind(key, _KEY, encoded, "P256 or P384", errors):
        return
    try:
        if isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(proof, uid.encode())
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(proof, uid.encode(), ec.ECDSA(hashes.SHA256()))
        elif isinstance(key, rsa.RSAPublicKey):
            key.verify(
                proof, uid.encode(), padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.AUTO), hashes.SHA256()
            )
    except InvalidSignature:
        errors.append(invalid(_PROOF, OMIT, "could not verify proof-of-possession signature"))


def condition_of(obj: Object) -> str:
    """The type of the condition with the decision, "" without one."""
    for condition in elements(obj, "status", "conditions"):
        if condition.get("type") in DECISIONS and condition.get("status") == "True":
            return str(condition["type"])
    return ""


def check_status(obj: Object, old: Object, now: str, errors: Errors) -> None:
    """``now``: the server's time, RFC 3339."""
    status, before = obj.get("status") or {}, old.get("status") or {}
    conditions = status.get("conditions") or []
    _check_decisions(conditions, errors)
    validate_conditions(conditions, _CONDITIONS, errors)
    if errors:
        return
    decision = condition_of(obj)
    if condition_of(old):
        _check_same(status, before, "immutable after PodCertificateRequest is issued, denied, or failed", errors)
    elif decision in ("Denied", "Failed"):
        text = "non-condition status fields must be empty when denying or failing the PodCertificateRequest"
        _check_same(status, {"conditions": conditions}, text, errors)
    elif decision:
        _check_issued(status, obj.get("spec") or {}, now, errors)
    else:
        _check_same(
            status, before, 'status is immutable unless transitioning to "Issued", "Denied", or "Failed"', errors
        )


def _check_same(status: Object, wanted: Object, text: str, errors: Errors) -> None:
    if any(not same(status.get(name), wanted.get(name)) for name in {*status, *wanted}):
        errors.append(invalid(_STATUS, OMIT, text))


def _check_decisions(conditions: list[Object], errors: Errors) -> None:
    """Checks the conditions; upstream's paths have a dot before the index."""
    known = 0
    for i, condition in enumerate(conditions):
        here, kind = _CONDITIONS.child(f"[{i}]"), condition.get("type", "")
        if kind not in DECISIONS:
            errors.append(not_supported(here.child("type"), kind, DECISIONS))
            continue
        known += 1
        if known > 1:
            text = 'There may be at most one condition with type "Issued", "Denied", or "Failed"'
            errors.append(invalid(here.child("type"), kind, text))
        if condition.get("status") != "True":
            errors.append(not_supported(here.child("status"), condition.get("status", ""), ("True",)))


def _check_issued(status: Object, spec: Object, now: str, errors: Errors) -> None:
    chain = status.get("certificateChain") or ""
    if len(chain.encode()) > _MAX_CHAIN:
        errors.append(too_long(_CHAIN, _MAX_CHAIN))
        return
    blocks = list(pem.blocks(chain.encode()))
    leaf = _leaf(blocks[0] if blocks else None, chain, errors)
    if leaf is None:
        return
    _check_names(leaf, errors)
    if leaf.public_key() != requested_key(spec):
        errors.append(invalid(_CHAIN, chain, "leaf certificate was not issued to the requested public key"))
        return
    if not _check_times(status, leaf, spec, now, errors):
        return
    for block in costly(blocks[1:]):
        if block.kind != "CERTIFICATE":
            text = "issued certificate chain must consist entirely of CERTFICATE PEM blocks"
            errors.append(invalid(_CHAIN, chain, text))
            return
        try:
            der.certificate(block.der)
        except ValueError:
            errors.append(invalid(_CHAIN, chain, "intermediate certificate does not parse as valid X.509"))
            return


def _leaf(block: pem.Block | None, chain: str, errors: Errors) -> x509.Certificate | None:
    if block is None:
        text = "issued certificate chain must contain at least one certificate"
    elif block.kind != "CERTIFICATE":
        text = "issued certificate chain must consist entirely of CERTIFICATE PEM blocks"
    else:
        try:
            leaf = der.certificate(block.der)
            leaf.extensions, leaf.public_key()
            return leaf
        except (ValueError, UnsupportedAlgorithm):
            text = "leaf certificate does not parse as valid X.509"
    errors.append(invalid(_CHAIN, chain, text))
    return None


def _check_names(leaf: x509.Certificate, errors: Errors) -> None:
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return
    for name in names.get_values_for_type(x509.DNSName):
        if not name:
            errors.append(invalid(_CHAIN, name, "leaf certificate should not contain empty DNSName"))
        if ".." in name:
            errors.append(invalid(_CHAIN, name, "leaf certificate's DNSName should not contain '..'"))
        if name.startswith(".") or name.endswith("."):
            errors.append(invalid(_CHAIN, name, "leaf certificate's DNSName should not start or end with '.'"))
    for name in names.get_values_for_type(x509.RFC822Name):
        if not is_address(name):
            errors.append(invalid(_CHAIN, name, "leaf certificate should not contain invalid EmailAddress"))


def _check_times(status: Object, leaf: x509.Certificate, spec: Object, now: str, errors: Errors) -> bool:
    """Checks that the times are the certificate's, and leave the kubelet time for a new request."""
    consistent = "must be present and consistent with the issued certificate"
    wanted = {
        "notBefore": consistent,
        "notAfter": consistent,
        "beginRefreshAt": "must be present and in the range [notbefore+10min, notafter-10min]",
    }
    errors += [required(_STATUS.child(name), text) for name, text in wanted.items() if not status.get(name)]
    if errors:
        return False
    begin, end, refresh = (seconds_of(status[name]) for name in wanted)
    first, last = leaf.not_valid_before_utc, leaf.not_valid_after_utc
    lifetime, most = last - first, spec.get("maxExpirationSeconds", 0)
    longer = f"leaf certificate lifetime must be <= spec.maxExpirationSeconds ({most})"
    for wrong, name, text in (
        (begin != first.timestamp(), "notBefore", "must be set to the NotBefore time encoded in the leaf certificate"),
        (abs(begin - seconds_of(now)) >= 300, "notBefore", "must be set to within 5 minutes of kube-apiserver's current time"),
        (end != last.timestamp(), "notAfter", "must be set to the NotAfter time encoded in the leaf certificate"),
        (lifetime < _HOUR, "", "leaf certificate lifetime must be >= 1 hour"),
        (lifetime > datetime.timedelta(seconds=most), "", longer),
        (refresh - begin < 600, "beginRefreshAt", "must be at least 10 minutes after status.notBefore"),
        (end - refresh < 600, "beginRefreshAt", "must be at least 10 minutes before status.notAfter"),
    ):  # fmt: skip
        if wrong:
            path, value = (_STATUS.child(name), status[name]) if name else (_CHAIN, _nanoseconds(lifetime))
            errors.append(invalid(path, value, text))
            return False
    return True


def _nanoseconds(span: datetime.timedelta) -> int:
    """A duration in the form of Go's encoder."""
    return int(span.total_seconds()) * 10**9


class PodCertificateRequestStrategy(PlainStrategy):
    empty_status: ClassVar[Object | None] = {}
    allow_unconditional_update = False

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {}).setdefault("maxExpirationSeconds", _DAY_SECONDS)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec = obj["spec"]
        signer = spec.get("signerName", "")
        validate_signer_name(signer, _SPEC.child("signerName"), errors)
        annotations = spec.get("unverifiedUserAnnotations") or {}
        validate_user_annotations(annotations, _SPEC.child("unverifiedUserAnnotations"), errors)
        for owner in ("pod", "serviceAccount", "node"):
            name, uid = spec.get(f"{owner}Name", ""), spec.get(f"{owner}UID", "")
            report(subdomain_name(name), name, _SPEC, errors, f"{owner}Name")
            if not uid:
                errors.append(invalid(_SPEC.child(f"{owner}UID"), uid, "must not be empty"))
            fits(len(uid.encode()), _MAX_UID, _SPEC, errors, f"{owner}UID")
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

    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        if not errors:  # as upstream: errors of the metadata are reported alone
            check_status(obj, old, ctx.now, errors)
        if not errors:
            errors += ctx.guard_errors


def _state(obj: Object, now: float) -> str:
    return condition_of(obj) or "Pending"


RESOURCE = Resource(
    *type_meta("certificates.k8s.io/v1beta1", "PodCertificateRequest"),
    strategy=PodCertificateRequestStrategy(),
    status=PodCertificateRequestStatusStrategy,
    selectable_fields={name: selectable(name) for name in _SELECTABLE},
    table=printing.table(
        printing.NAME,
        printing.field_column("PodName", ".spec.podName"),
        printing.field_column("ServiceAccountName", ".spec.serviceAccountName"),
        printing.field_column("NodeName", ".spec.nodeName"),
        printing.field_column("SignerName", ".spec.signerName"),
        printing.column("State", _state, "Is the request Pending, Issued, Denied, or Failed?"),
        printing.column(
            "UnverifiedUserAnnotations",
            lambda obj, now: printing.labels((obj.get("spec") or {}).get("unverifiedUserAnnotations")),
            ".spec.unverifiedUserAnnotations",
        ),
        of="api.certificates.v1beta1.PodCertificateRequest",
    ),
    gates=("PodCertificateRequest",),
)
