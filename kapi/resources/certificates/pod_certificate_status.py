"""Validation of a PodCertificateRequest's status: a signer decides once, and the decision is final (KEP-4317).

Upstream: ``pkg/apis/certificates/validation`` (ValidatePodCertificateRequestStatusUpdate).
"""

from __future__ import annotations

import datetime
from email.utils import parseaddr

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from kapi.machinery.each import costly, elements
from kapi.machinery.field import OMIT, Path, invalid, required, too_long
from kapi.machinery.tree import Object
from kapi.resources.certificates.pod_certificate_keys import requested_key
from kapi.resources.shared.key_pairs import Block, pem_blocks
from kapi.resources.shared.metadata import validate_conditions
from kapi.resources.shared.rules import Errors, not_supported, same

DECISIONS = ("Issued", "Denied", "Failed")
_STATUS = Path("status")
_CHAIN, _CONDITIONS = _STATUS.child("certificateChain"), _STATUS.child("conditions")
_NOT_BEFORE, _NOT_AFTER, _REFRESH = (_STATUS.child(name) for name in ("notBefore", "notAfter", "beginRefreshAt"))
_MAX_CHAIN = 100 * 1024
_MINUTE, _HOUR = datetime.timedelta(minutes=1), datetime.timedelta(hours=1)


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
            errors.append(not_supported(here.child("type"), kind, sorted(DECISIONS)))
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
    blocks = list(pem_blocks(chain.encode()))
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
            x509.load_der_x509_certificate(block.der)
        except ValueError:
            errors.append(invalid(_CHAIN, chain, "intermediate certificate does not parse as valid X.509"))
            return


def _leaf(block: Block | None, chain: str, errors: Errors) -> x509.Certificate | None:
    if block is None:
        text = "issued certificate chain must contain at least one certificate"
    elif block.kind != "CERTIFICATE":
        text = "issued certificate chain must consist entirely of CERTIFICATE PEM blocks"
    else:
        try:
            leaf = x509.load_der_x509_certificate(block.der)
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
        if "@" not in parseaddr(name)[1]:
            errors.append(invalid(_CHAIN, name, "leaf certificate should not contain invalid EmailAddress"))


def _check_times(status: Object, leaf: x509.Certificate, spec: Object, now: str, errors: Errors) -> bool:
    """The times must be those of the certificate, and leave the kubelet time for a new request."""
    wanted = (
        (_NOT_BEFORE, "notBefore", "must be present and consistent with the issued certificate"),
        (_NOT_AFTER, "notAfter", "must be present and consistent with the issued certificate"),
        (_REFRESH, "beginRefreshAt", "must be present and in the range [notbefore+10min, notafter-10min]"),
    )
    errors += [required(path, text) for path, name, text in wanted if not status.get(name)]
    if errors:
        return False
    begin, end, refresh = (_time(status[name]) for _, name, _ in wanted)
    lifetime = leaf.not_valid_after_utc - leaf.not_valid_before_utc
    most = spec.get("maxExpirationSeconds", 0)
    for wrong, path, value, text in (
        (
            begin != leaf.not_valid_before_utc,
            _NOT_BEFORE,
            status["notBefore"],
            "must be set to the NotBefore time encoded in the leaf certificate",
        ),
        (
            abs(begin - _time(now)) >= 5 * _MINUTE,
            _NOT_BEFORE,
            status["notBefore"],
            "must be set to within 5 minutes of kube-apiserver's current time",
        ),
        (
            end != leaf.not_valid_after_utc,
            _NOT_AFTER,
            status["notAfter"],
            "must be set to the NotAfter time encoded in the leaf certificate",
        ),
        (lifetime < _HOUR, _CHAIN, _nanoseconds(lifetime), "leaf certificate lifetime must be >= 1 hour"),
        (
            lifetime > datetime.timedelta(seconds=most),
            _CHAIN,
            _nanoseconds(lifetime),
            f"leaf certificate lifetime must be <= spec.maxExpirationSeconds ({most})",
        ),
        (
            refresh < begin + 10 * _MINUTE,
            _REFRESH,
            status["beginRefreshAt"],
            "must be at least 10 minutes after status.notBefore",
        ),
        (
            refresh > end - 10 * _MINUTE,
            _REFRESH,
            status["beginRefreshAt"],
            "must be at least 10 minutes before status.notAfter",
        ),
    ):
        if wrong:
            errors.append(invalid(path, value, text))
            return False
    return True


def _time(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


def _nanoseconds(span: datetime.timedelta) -> int:
    """As Go's encoder writes a duration."""
    return int(span.total_seconds()) * 10**9
