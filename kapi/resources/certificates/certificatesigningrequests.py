"""CertificateSigningRequest (certificates.k8s.io/v1): the server records the requester; approval and status are subresources.

Certificates that were issued for a requested duration are counted.
Upstream: ``pkg/apis/certificates/validation``, ``pkg/registry/certificates/certificates``.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Iterable

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from kapi.machinery import der, pem
from kapi.machinery.ages import human_duration
from kapi.machinery.each import each_of, elements
from kapi.machinery.field import Path, duplicate, forbidden, invalid, required
from kapi.machinery.meters import counter
from kapi.machinery.tree import Object
from kapi.request.user import user_tree
from kapi.resources.definition import Resource, StrategyContext, Subresource, selectable, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.rules import Errors, distinct, need, same, supported
from kapi.resources.shared.signers import validate_signer_name
from kapi.resources.shared.strategies import PlainStrategy, UpdateRules, keep

_TOLERANCE_SECONDS = 300  # signers backdate the beginning
_TOLERANCE = 0.05  # the part of the requested duration

REQUESTED = counter("apiserver_certificates_registry_csr_requested_duration_total")
HONORED = counter("apiserver_certificates_registry_csr_honored_duration_total")


class CountedDurations:
    """The lifecycle of CertificateSigningRequests: a certificate counts when it was stored."""

    async def begin_create(self, obj: Object, ctx: StrategyContext) -> Callable[[bool], Awaitable[None]] | None:
        return None

    async def begin_update(
        self, obj: Object, old: Object, ctx: StrategyContext
    ) -> Callable[[bool], Awaitable[None]] | None:
        wanted = (old.get("spec") or {}).get("expirationSeconds")
        if wanted is None or (old.get("status") or {}).get("certificate"):
            return None

        async def finish(committed: bool) -> None:
            issued = (obj.get("status") or {}).get("certificate")
            if committed and issued:
                _count(old, wanted, issued)

        return finish

    async def after_delete(self, obj: Object, ctx: StrategyContext) -> None: ...


def _count(request: Object, wanted: int, issued: str) -> None:
    signer = request["spec"].get("signerName", "")
    if not signer.startswith("kubernetes.io/"):
        signer = "other"
    REQUESTED.add(signer)
    try:
        certificate = x509.load_pem_x509_certificate(base64.b64decode(issued))
    except ValueError:  # validation refuses such a certificate
        return
    got = (certificate.not_valid_after_utc - certificate.not_valid_before_utc).total_seconds()
    if abs(wanted - got) < _TOLERANCE_SECONDS + wanted * _TOLERANCE:
        HONORED.add(signer)


_SPEC, _CONDITIONS = Path("spec"), Path("status").child("conditions")
_CERTIFICATE = Path("status").child("certificate")
_LEGACY = "kubernetes.io/legacy-unknown"
_MIN_SECONDS = 600
_APPROVAL = ("Approved", "Denied")
_LASTING = ("Approved", "Denied", "Failed")
_USAGES = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)


def keep_conditions(new: list[Object], before: list[Object], kinds: Iterable[str]) -> None:
    """Restores conditions of these types, unless their number has changed."""
    for kind in kinds:
        places = [index for index, item in enumerate(elements(new)) if item.get("type") == kind]
        kept = [item for item in elements(before) if item.get("type") == kind]
        if len(places) == len(kept):
            for place, item in zip(places, kept, strict=True):
                new[place] = dict(item)


def fill_transition_times(new: list[Object], before: list[Object], now: str) -> None:
    """Sets missing transition times; a condition with unchanged type and status keeps its time."""
    times: dict[tuple[object, object], str] = {}
    for item in elements(before):
        if item.get("lastTransitionTime"):
            times.setdefault((item.get("type"), item.get("status")), item["lastTransitionTime"])
    for item in elements(new):
        if not item.get("lastTransitionTime"):
            item["lastTransitionTime"] = times.get((item.get("type"), item.get("status")), now)


def _any_name(name: str, prefix: bool) -> tuple[str, ...]:
    """The rule for names, which allows every name."""
    return ()


class RequestStrategy(PlainStrategy):
    """The main resource: after creation only the metadata may change."""

    namespaced = False
    name_rule = staticmethod(_any_name)
    reset_fields = ("spec", "status")
    update_rules = (UpdateRules.NEW_METADATA, UpdateRules.TYPE, UpdateRules.CHANGED_METADATA)
    approves = False  # whether the subresource may change the conditions Approved and Denied
    signs = False  # whether the subresource may change the certificate

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        if old is not None:
            keep(obj, old, "spec")
            keep(obj, old, "status")
            return
        obj["status"] = {}
        spec = obj.setdefault("spec", {})
        for name in ("username", "uid", "groups", "extra"):
            spec.pop(name, None)
        if ctx.user is not None:
            spec.update(user_tree(ctx.user))

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec = obj.get("spec") or {}
        if problem := request_error(spec.get("request")):
            errors.append(invalid(_SPEC.child("request"), spec.get("request"), problem))
        _usages(spec, (old or {}).get("spec") or {}, errors)
        signer, here = spec.get("signerName", ""), _SPEC.child("signerName")
        if signer == _LEGACY:
            if old is None or (old.get("spec") or {}).get("signerName") != _LEGACY:
                errors.append(invalid(here, signer, "the legacy signerName is not allowed via this API version"))
        else:
            validate_signer_name(signer, here, errors)
        seconds = spec.get("expirationSeconds")
        if seconds is not None and seconds < _MIN_SECONDS:
            detail = "may not specify a duration less than 600 seconds (10 minutes)"
            errors.append(invalid(_SPEC.child("expirationSeconds"), seconds, detail))
        _conditions(_conditions_of(obj), _conditions_of(old), errors)
        _certificate(obj, old, errors)

    def check_change(self, obj: Object, old: Object, errors: Errors) -> None:
        validate_change(obj, old, errors, approval=self.approves, certificate=self.signs)


class StatusStrategy(RequestStrategy):
    """Signers set the certificate and conditions other than Approved and Denied."""

    reset_fields = ("spec", "status.conditions")
    signs = True

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        assert old is not None  # an update strategy
        keep(obj, old, "spec")
        keep_conditions(_conditions_of(obj), _conditions_of(old), _APPROVAL)
        fill_times(obj, old, ctx.now)


class ApprovalStrategy(RequestStrategy):
    """Approvers set conditions."""

    reset_fields = ("spec", "status.certificate")
    approves = True

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        assert old is not None  # an update strategy
        fill_times(obj, old, ctx.now)
        conditions = (obj.get("status") or {}).get("conditions")
        keep(obj, old, "spec")
        keep(obj, old, "status")
        status = obj.setdefault("status", {})
        status.pop("conditions", None)
        if conditions:
            status["conditions"] = conditions


def fill_times(obj: Object, old: Object, now: str) -> None:
    """Sets missing times of conditions; the transition time stays when type and status are unchanged."""
    for condition in elements(_conditions_of(obj)):
        condition["lastUpdateTime"] = condition.get("lastUpdateTime") or now
    fill_transition_times(_conditions_of(obj), _conditions_of(old), now)


def request_error(encoded: str | None) -> str:
    """The error of a request; "" for a PEM block with a validly signed PKCS #10 request."""
    block = pem.request_block(_decoded(encoded))
    if block is None:
        return pem.NO_REQUEST
    try:
        request = der.signing_request(block.der)
    except ValueError as error:
        return str(error)
    try:
        key = request.public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "x509: malformed certificate request"
    if der.is_signed(request):
        return ""
    try:
        request.signature_hash_algorithm  # noqa: B018
    except UnsupportedAlgorithm:
        return "x509: cannot verify signature: algorithm unimplemented"
    if isinstance(key, rsa.RSAPublicKey):
        return "crypto/rsa: verification error"
    algorithm = "Ed25519" if isinstance(key, ed25519.Ed25519PublicKey) else "ECDSA"
    return f"x509: {algorithm} verification failure"


def certificate_error(encoded: str | None) -> str:
    """The error of a certificate; "" for none and for PEM blocks that are certificates."""
    data = _decoded(encoded)
    if not data:
        return ""
    blocks = list(pem.blocks(data))
    for kind, content, headers, _ in blocks:
        if kind != "CERTIFICATE":
            return f'only CERTIFICATE PEM blocks are allowed, found "{kind}"'
        if headers:
            return "no PEM block headers are permitted"
        try:
            if not der.certificates(content):
                return "found CERTIFICATE PEM block containing 0 certificates"
        except ValueError as error:
            return str(error)
    return "" if blocks else "must contain at least one CERTIFICATE PEM block"


def _decoded(encoded: str | None) -> bytes:
    try:
        return base64.b64decode(encoded or "", validate=True)
    except binascii.Error:
        return b""


def _conditions_of(obj: Object | None) -> list[Object]:
    return ((obj or {}).get("status") or {}).get("conditions") or []


def _usages(spec: Object, old: Object, errors: Errors) -> None:
    usages, before = spec.get("usages") or [], old.get("usages") or []
    here = _SPEC.child("usages")
    need(usages, here, errors)
    if all(usage in _USAGES for usage in before):
        for usage, place in each_of(here, usages):
            supported(usage, _USAGES, place, errors)
    if len(set(before)) == len(before):
        given: set[str] = set()
        for usage, place in each_of(here, usages):
            distinct(usage, given, place, errors)


def _conditions(conditions: list[Object], old: list[Object], errors: Errors) -> None:
    """Appends the errors of the conditions; those that the old object has already are allowed."""
    types = [item.get("type", "") for item in elements(old)]
    before = set(types)
    unique = len(before) == len(types)
    exclusive = not all(kind in before for kind in _APPROVAL)
    seen: set[str] = set()
    for condition, place in each_of(_CONDITIONS, conditions):
        kind, status, here = condition.get("type", ""), condition.get("status", ""), place
        if not kind and "" not in before:
            errors.append(required(here.child("type")))
        allowed = ("True",) if kind in _LASTING else ("False", "True", "Unknown")
        if need(status, here, errors, "status"):
            supported(status, allowed, here, errors, "status")
        if exclusive and kind in _APPROVAL and (seen & set(_APPROVAL)) - {kind}:
            errors.append(invalid(_CONDITIONS, kind, "Approved and Denied conditions are mutually exclusive"))
        if kind in seen and unique:
            errors.append(duplicate(here.child("type"), kind))
        seen.add(kind)


def _certificate(obj: Object, old: Object | None, errors: Errors) -> None:
    new = (obj.get("status") or {}).get("certificate")
    if old is not None:
        before = (old.get("status") or {}).get("certificate")
        if new == before or certificate_error(before):
            return
    if problem := certificate_error(new):
        errors.append(invalid(_CERTIFICATE, "<certificate data>", problem))


def validate_change(obj: Object, old: Object, errors: Errors, *, approval: bool, certificate: bool) -> None:
    """``approval``: Approved and Denied may change; ``certificate``: the certificate may be set, once."""
    new, before = _conditions_of(obj), _conditions_of(old)
    for kind in _LASTING:
        if len(_of(new, kind)) < len(_of(before, kind)):
            errors.append(forbidden(_CONDITIONS, f'updates may not remove a condition of type "{kind}"'))
    for kind in () if approval else _APPROVAL:
        have, had = _of(new, kind), _of(before, kind)
        if len(have) > len(had):
            errors.append(forbidden(_CONDITIONS, f'updates may not add a condition of type "{kind}"'))
        elif len(have) == len(had) and not same(have, had):
            errors.append(forbidden(_CONDITIONS, f'updates may not modify a condition of type "{kind}"'))
    issued, was = (item.get("status") or {} for item in (obj, old))
    if issued.get("certificate", "") != was.get("certificate", ""):
        if not certificate:
            errors.append(forbidden(_CERTIFICATE, "updates may not set certificate content"))
        elif was.get("certificate"):
            errors.append(forbidden(_CERTIFICATE, "updates may not modify existing certificate content"))


def _of(conditions: list[Object], kind: str) -> list[Object]:
    return [item for item in elements(conditions) if item.get("type") == kind]


def _state(obj: Object, now: float) -> str:
    kinds = {item.get("type") for item in _conditions_of(obj)}
    text = "Denied" if "Denied" in kinds else "Approved" if "Approved" in kinds else "Pending"
    if "Failed" in kinds:
        text += ",Failed"
    return text + (",Issued" if (obj.get("status") or {}).get("certificate") else "")


def _duration(obj: Object, now: float) -> str:
    seconds = (obj.get("spec") or {}).get("expirationSeconds")
    return printing.NONE if seconds is None else human_duration(seconds)


RESOURCE = Resource(
    *type_meta("certificates.k8s.io/v1", "CertificateSigningRequest"),
    short_names=("csr",),
    subresources=(
        Subresource("approval", strategy=ApprovalStrategy()),
        Subresource("status", strategy=StatusStrategy()),
    ),
    strategy=RequestStrategy(),
    lifecycle=CountedDurations(),
    table=printing.table(
        printing.NAME,
        printing.AGE,
        printing.column(
            "SignerName",
            printing.of_spec("signerName", printing.NONE),
            "Requested signer for the request. It is a qualified name in the form: `scope-hostname.io/name`. "
            "If empty, it will be defaulted:\n 1. If it's a kubelet client certificate, it is assigned\n    "
            '"kubernetes.io/kube-apiserver-client-kubelet".\n 2. If it\'s a kubelet serving certificate, it '
            'is assigned\n    "kubernetes.io/kubelet-serving".\n 3. Otherwise, it is assigned '
            '"kubernetes.io/legacy-unknown".\nDistribution of trust for signers happens out of band. You '
            "can select on this field using `spec.signerName`.",
        ),
        printing.column("Requestor", printing.of_spec("username"), "Base64-encoded PKCS#10 CSR data"),
        printing.column("RequestedDuration", _duration, ".spec.expirationSeconds"),
        printing.column("Condition", _state, "Conditions applied to the request, such as approval or denial."),
        of="api.certificates.v1.CertificateSigningRequest",
    ),
    selectable_fields={"spec.signerName": selectable("spec.signerName")},
)
