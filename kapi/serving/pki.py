"""Generates keys, certificates and the administrator's kubeconfig at the first start; later starts use them again.

Keys and certificates are in ``<data dir>/pki`` or in ``--cert-dir``, readable only by their owner.  Upstream leaves this to
kubeadm, whose file names are used.
"""

from __future__ import annotations

import base64
import datetime
import fcntl
import ipaddress
import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar, Union

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Loaded = TypeVar("Loaded")
Key = Union[ec.EllipticCurvePrivateKey, rsa.RSAPrivateKey]

#: a template, since importing the YAML library would delay the start
_TEXT = """\
apiVersion: v1
kind: Config
clusters:
- name: kapi
  cluster:
    server: {url}
    certificate-authority-data: {ca}
users:
- name: admin
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: kapi
  context:
    cluster: kapi
    user: admin
current-context: kapi
"""


def write_admin(path: Path, url: str, ca: bytes, files: Files) -> None:
    """Writes a kubeconfig with the generated client certificate, if it is not there.  Raises OSError.

    ``ca`` verifies the serving certificate.
    """
    text = _TEXT.format(
        url=json.dumps(url),
        ca=_data(ca),
        certificate=_data(files.admin.read_bytes()),
        key=_data(files.admin_key.read_bytes()),
    )
    if not _is_there(path, text.encode()):
        write_private(path, text.encode())


def _is_there(path: Path, content: bytes) -> bool:
    """Whether a file has this content, readable only by its owner: then it is not written, and a full disk prevents no start."""
    try:
        return path.read_bytes() == content and not path.stat().st_mode & 0o077
    except OSError:
        return False


def _data(content: bytes) -> str:
    return base64.b64encode(content).decode()


_YEAR = datetime.timedelta(days=365)
_SKEW = datetime.timedelta(minutes=5)
_RENEW_BEFORE = datetime.timedelta(days=30)


class Files(msgspec.Struct, frozen=True):
    """The paths of the generated files."""

    directory: Path

    @property
    def ca(self) -> Path:
        return self.directory / "ca.crt"

    @property
    def ca_key(self) -> Path:
        return self.directory / "ca.key"

    @property
    def serving(self) -> Path:
        return self.directory / "apiserver.crt"

    @property
    def serving_key(self) -> Path:
        return self.directory / "apiserver.key"

    @property
    def admin(self) -> Path:
        return self.directory / "admin.crt"

    @property
    def admin_key(self) -> Path:
        return self.directory / "admin.key"

    @property
    def service_account_key(self) -> Path:
        return self.directory / "sa.key"

    @property
    def service_account_public(self) -> Path:
        return self.directory / "sa.pub"


def now() -> datetime.datetime:
    """The time by this machine's clock, in UTC."""
    return datetime.datetime.now(datetime.UTC)


def write_private(path: Path, content: bytes) -> None:
    """Writes a file atomically, readable only by its owner."""
    scratch = path.with_name(path.name + ".new")
    scratch.unlink(missing_ok=True)  # a file left by a crash might be readable by others
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())  # else the file may be empty after a power failure
    scratch.replace(path)


def _key_bytes(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _load(path: Path, load: Callable[[bytes], Loaded]) -> Loaded:
    try:
        return load(path.read_bytes())
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path.name} is damaged: {error}") from None


def _load_key(path: Path) -> Key:
    key = _load(path, lambda data: serialization.load_pem_private_key(data, None))
    if not isinstance(key, (ec.EllipticCurvePrivateKey, rsa.RSAPrivateKey)):
        raise ValueError(f"{path.name} is neither an RSA nor an EC key")
    return key


def _kind(key: Key) -> str:
    return "RSA" if isinstance(key, rsa.RSAPrivateKey) else "ECDSA"


def _make_key(kind: str) -> Key:
    return rsa.generate_private_key(65537, 2048) if kind == "RSA" else ec.generate_private_key(ec.SECP256R1())


def _name(common: str, organization: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(subject: x509.Name, issuer: x509.Name, key: Key, years: int) -> x509.CertificateBuilder:
    moment = now()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment - _SKEW)
        .not_valid_after(moment + years * _YEAR)
    )


def _usage(*, signs: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def ensure(directory: Path, names: Iterable[str], kinds: Sequence[str] = ("ECDSA", "RSA")) -> Files:
    """Generates missing files.  ``names`` are host names and addresses that the serving certificate must cover; its key is of
    one of these ``kinds``, the first if it is made.

    A lock file serializes servers that share the directory.  Raises OSError, and ValueError for files that are damaged or do not
    belong together: keys that clients or tokens depend on are never replaced.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _ensure(Files(directory), names, kinds)
    finally:
        os.close(lock)


def _ensure(files: Files, names: Iterable[str], kinds: Sequence[str]) -> Files:
    for public, private in ((files.ca, files.ca_key), (files.service_account_public, files.service_account_key)):
        if public.exists() and not private.exists():  # the private key is written first
            raise ValueError(f"{public.name} is there, but not {private.name}: copy both, or remove both")
    if not files.ca.exists():
        _make_ca(files)
    ca, ca_key = _load(files.ca, x509.load_pem_x509_certificate), _load_key(files.ca_key)
    if ca.public_key() != ca_key.public_key():
        raise ValueError(f"{files.ca.name} and {files.ca_key.name} do not belong together: copy both, or remove both")
    wanted = list(dict.fromkeys(names))
    if not _serves(files, ca, wanted, kinds):
        _make_serving(files, ca, ca_key, wanted, kinds[0])
    if not _usable(files.admin, files.admin_key, ca):
        _make_admin(files, ca, ca_key)
    if not files.service_account_public.exists():
        _make_service_account(files)
    return files


def _make_ca(files: Files) -> None:
    # its certificate is missing after a kill, or in an incomplete copy: certificates that it has signed stay valid
    exists = files.ca_key.exists()
    key = _load_key(files.ca_key) if exists else _make_key("ECDSA")
    subject = _name("kubernetes")
    certificate = (
        _builder(subject, subject, key, 10)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    if not exists:
        write_private(files.ca_key, _key_bytes(key))
    write_private(files.ca, certificate.public_bytes(serialization.Encoding.PEM))


def _usable(path: Path, key: Path, ca: x509.Certificate) -> bool:
    """Whether a certificate is valid for some time, of this CA, and belongs to its key.

    Anything else is made again, whether a kill between two files, a clock that was wrong or a copy has left it.
    """
    moment = now()
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        certificate.verify_directly_issued_by(ca)
        return (
            certificate.public_key() == _load_key(key).public_key()
            and certificate.not_valid_before_utc <= moment + _SKEW
            and certificate.not_valid_after_utc > moment + _RENEW_BEFORE
        )
    except Exception:  # missing, damaged, or signed by another key
        return False


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _serves(files: Files, ca: x509.Certificate, wanted: list[str], kinds: Sequence[str]) -> bool:
    if not _usable(files.serving, files.serving_key, ca) or _kind(_load_key(files.serving_key)) not in kinds:
        return False
    certificate = x509.load_pem_x509_certificate(files.serving.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return all(_alternative(name) in names for name in wanted)


def validity_problem(path: Path) -> str:
    """Why clients cannot trust a certificate now, for operators; "" when they can.  Raises OSError, ValueError."""
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    moment = now()
    if certificate.not_valid_after_utc < moment:
        day = certificate.not_valid_after_utc
        return f"{path} has expired on {day:%Y-%m-%d}: clients cannot connect until it is replaced"
    if certificate.not_valid_before_utc > moment + _SKEW:
        return (
            f"{path} is valid from {certificate.not_valid_before_utc:%Y-%m-%d} on, but it is {moment:%Y-%m-%d} by the clock "
            "of this machine: it is wrong now, or was when the certificate was made"
        )
    return ""


def kept(files: Files) -> tuple[datetime.datetime, datetime.datetime]:
    """From when and until when ``ensure`` makes none of the certificates again: by a clock that went back they begin later."""
    certificates = [x509.load_pem_x509_certificate(path.read_bytes()) for path in (files.serving, files.admin)]
    begin = max(certificate.not_valid_before_utc for certificate in certificates) - _SKEW
    return begin, min(certificate.not_valid_after_utc for certificate in certificates) - _RENEW_BEFORE


def _make_serving(files: Files, ca: x509.Certificate, ca_key: Key, wanted: list[str], kind: str) -> None:
    key = _make_key(kind)
    certificate = (
        _builder(_name("kube-apiserver"), ca.subject, key, 1)
        .add_extension(x509.SubjectAlternativeName([_alternative(name) for name in wanted]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    write_private(files.serving_key, _key_bytes(key))
    write_private(files.serving, certificate.public_bytes(serialization.Encoding.PEM))


def _make_admin(files: Files, ca: x509.Certificate, ca_key: Key) -> None:
    key = _make_key("ECDSA")
    certificate = (
        _builder(_name("kubernetes-admin", "system:masters"), ca.subject, key, 1)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    write_private(files.admin_key, _key_bytes(key))
    write_private(files.admin, certificate.public_bytes(serialization.Encoding.PEM))


def _make_service_account(files: Files) -> None:
    if files.service_account_key.exists():  # as for the CA
        key = _load_key(files.service_account_key)
    else:
        key = _make_key("RSA")  # every verifier of such tokens supports RS256
        write_private(files.service_account_key, _key_bytes(key))
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    write_private(files.service_account_public, public)
