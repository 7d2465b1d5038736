"""The key of a PodCertificateRequest, and the proof that the requester has the private key (KEP-4317).

Upstream: ``pkg/apis/certificates/validation`` (ValidatePodCertificateRequestCreate).
"""

from __future__ import annotations

import base64
import binascii

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

from kapi.machinery.field import OMIT, Path, invalid, required, too_long
from kapi.machinery.tree import Object
from kapi.resources.shared.rules import Errors

_SPEC = Path("spec")
_REQUEST, _KEY, _PROOF = (
    _SPEC.child("stubPKCS10Request"),
    _SPEC.child("pkixPublicKey"),
    _SPEC.child("proofOfPossession"),
)
_MAX_BYTES = 10 * 1024
_CURVES = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)
_RSA_BITS = (3072, 4096)


def check_keys(spec: Object, errors: Errors) -> None:
    """A signed certificate request contains both; the older form is a key and a signature of the pod's uid."""
    request, key, proof = (_decoded(spec, path) for path in (_REQUEST, _KEY, _PROOF))
    for path, data in ((_REQUEST, request), (_KEY, key), (_PROOF, proof)):
        if len(data) > _MAX_BYTES:
            errors.append(too_long(path, _MAX_BYTES))
            return
    if request:
        for path, data in ((_KEY, key), (_PROOF, proof)):
            if data:
                errors.append(invalid(path, OMIT, "must be empty when stubPKCS10Request is set"))
        _check_request(request, errors)
    elif key or proof:
        _check_key_and_proof(key, proof, spec.get("podUID", ""), errors)
    else:
        errors.append(required(_REQUEST))


def requested_key(spec: Object) -> PublicKeyTypes | None:
    """The key for which a certificate is requested; None when it cannot be decoded."""
    try:
        if spec.get("stubPKCS10Request"):
            return x509.load_der_x509_csr(_decoded(spec, _REQUEST)).public_key()
        return serialization.load_der_public_key(_decoded(spec, _KEY))
    except (ValueError, UnsupportedAlgorithm):
        return None


def _decoded(spec: Object, path: Path) -> bytes:
    try:
        return base64.b64decode(spec.get(str(path).rpartition(".")[2]) or "", validate=True)
    except binascii.Error:
        return b""


def _check_request(data: bytes, errors: Errors) -> None:
    try:
        request = x509.load_der_x509_csr(data)
        key, good = request.public_key(), request.is_signature_valid
    except (ValueError, TypeError, UnsupportedAlgorithm, InvalidSignature):
        errors.append(invalid(_REQUEST, OMIT, "must be a valid PKCS#10 certificate signing request"))
        return
    if _check_kind(key, _REQUEST, errors) and not good:
        errors.append(invalid(_REQUEST, OMIT, "could not verify the signature of the certificate signing request"))


def _check_kind(key: PublicKeyTypes, path: Path, errors: Errors) -> bool:
    if isinstance(key, ec.EllipticCurvePublicKey):
        if isinstance(key.curve, _CURVES):
            return True
        problem: tuple[object, str] = (f"curve {key.curve.name}", "elliptic public keys must use curve P256 or P384")
    elif isinstance(key, rsa.RSAPublicKey):
        if key.key_size in _RSA_BITS:
            return True
        problem = (f"{key.key_size}-bit modulus", "RSA keys must have modulus size 3072 or 4096")
    elif isinstance(key, ed25519.Ed25519PublicKey):
        return True
    else:
        problem = (OMIT, "unknown public key type; supported types are Ed25519, ECDSA, and RSA")
    errors.append(invalid(path, *problem))
    return False


def _check_key_and_proof(data: bytes, proof: bytes, uid: str, errors: Errors) -> None:
    try:
        key = serialization.load_der_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        encoded = base64.b64encode(data).decode()
        errors.append(invalid(_KEY, encoded, "must be a valid PKIX-serialized public key"))
        return
    if not _check_kind(key, _KEY, errors):
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
