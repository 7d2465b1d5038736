"""PodCertificateRequest: the key and its proof, the signer's one decision, who may sign."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

from kapi.authorization.interface import Attributes, Decision, Verdict
from kapi.registry.guards import install_signing_checks
from kapi.resources.catalogue import BUILT_IN
from kapi.resources.previews import PREVIEWS
from kapi.testing.memory_api import EPOCH, MemoryAPI, succeed
from tests.resources.strategy_kit import short
from tests.rsa_keys import rsa_key

Object = dict[str, Any]
REQUESTS = "/apis/certificates.k8s.io/v1beta1/namespaces/default/podcertificaterequests"
UID = "8ad1b0c5-6b5f-4e4a-8f0e-6f9e0d0c6c11"
KEY = ec.generate_private_key(ec.SECP256R1())
NOW = datetime.datetime.fromtimestamp(EPOCH, datetime.UTC)
HOUR = datetime.timedelta(hours=1)


@pytest.fixture
def api() -> MemoryAPI:
    return started()


def started(authorizer: Any = None) -> MemoryAPI:
    api: MemoryAPI = succeed(MemoryAPI.started(rows=(*BUILT_IN, *PREVIEWS), authorizer=authorizer))
    install_signing_checks(api.registry)
    api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
    return api


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def csr(key: Any, algorithm: Any = hashes.SHA256) -> str:
    made = x509.CertificateSigningRequestBuilder(x509.Name([])).sign(key, algorithm and algorithm())
    return encoded(made.public_bytes(serialization.Encoding.DER))


def pem(kind: str, data: bytes) -> str:
    return f"-----BEGIN {kind}-----\n{encoded(data)}\n-----END {kind}-----\n"


def request(**spec: Any) -> Object:
    usual = {
        "signerName": "example.com/signer",
        "podName": "p",
        "podUID": UID,
        "serviceAccountName": "default",
        "serviceAccountUID": "u",
        "nodeName": "n1",
        "nodeUID": "v",
        "stubPKCS10Request": csr(KEY),
    }
    return {"metadata": {"name": "r"}, "spec": {**usual, **spec}}


def texts(answer: Any) -> list[str]:
    assert answer.code == 422, answer.json
    return [f"{cause['field']}: {cause['message']}" for cause in answer.json["details"]["causes"]]


def test_a_request(api: MemoryAPI) -> None:
    made = api.ask("POST", REQUESTS, request()).json
    assert made["spec"]["maxExpirationSeconds"] == 86400
    for selector, count in (
        ("spec.nodeName=n1", 1),
        ("spec.nodeName=n2", 0),
        ("spec.podName=p,spec.signerName=x/y", 0),
    ):
        assert len(api.ask("GET", f"{REQUESTS}?fieldSelector={selector}").json["items"]) == count
    table = api.ask("GET", REQUESTS, headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}).json
    assert table["rows"][0]["cells"][:6] == ["r", "p", "default", "n1", "example.com/signer", "Pending"]
    changed = {**made, "spec": {**made["spec"], "podName": "q"}}
    (text,) = texts(api.ask("PUT", f"{REQUESTS}/r", changed))
    assert text.startswith("spec: Invalid value: {") and text.endswith("field is immutable")


def proven(key: Any) -> Object:
    """As kubelets of 1.35 asked."""
    if isinstance(key, ed25519.Ed25519PrivateKey):
        proof = key.sign(UID.encode())
    elif isinstance(key, ec.EllipticCurvePrivateKey):
        proof = key.sign(UID.encode(), ec.ECDSA(hashes.SHA256()))
    else:
        pss = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.MAX_LENGTH)
        proof = key.sign(UID.encode(), pss, hashes.SHA256())
    form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    public = key.public_key().public_bytes(*form)
    return {"stubPKCS10Request": "", "pkixPublicKey": encoded(public), "proofOfPossession": encoded(proof)}


@pytest.mark.parametrize(
    "generate",
    [
        ed25519.Ed25519PrivateKey.generate,
        lambda: ec.generate_private_key(ec.SECP384R1()),
        lambda: ec.generate_private_key(ec.SECP521R1()),
        lambda: rsa.generate_private_key(65537, 3072),
    ],
    ids=["Ed25519", "P-384", "P-521", "RSA 3072"],
)
def test_a_key_is_proven_by_a_request_or_by_a_signature(api: MemoryAPI, generate: Callable[[], Any]) -> None:
    key = generate()
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256
    for spec in ({"stubPKCS10Request": csr(key, algorithm)}, proven(key)):
        made = api.ask("POST", REQUESTS, {**request(**spec), "metadata": {"generateName": "r-"}})
        assert made.code == 201, made.json
        if spec.get("proofOfPossession"):
            wrong = {"podUID": "another"}
            error = "spec.proofOfPossession: Invalid value: could not verify proof-of-possession signature"
        else:
            wrong = {"stubPKCS10Request": _forged(spec)}
            error = "spec.stubPKCS10Request: Invalid value: invalid signature"
        assert texts(api.ask("POST", REQUESTS, request(**{**spec, **wrong}))) == [error]


def _forged(spec: Object) -> str:
    """With another last byte of the signature."""
    data = bytearray(base64.b64decode(spec["stubPKCS10Request"]))
    data[-1] ^= 1
    return encoded(bytes(data))


EXACTLY_ONE = (
    "spec: Invalid value: exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"
)


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"stubPKCS10Request": ""}, [EXACTLY_ONE]),
        ({**proven(KEY), "stubPKCS10Request": csr(KEY)}, [EXACTLY_ONE]),
        ({**proven(KEY), "proofOfPossession": ""}, [EXACTLY_ONE]),
        (
            {"stubPKCS10Request": "AAAA"},
            ["spec.stubPKCS10Request: Invalid value: must be a valid PKCS#10 CSR"],
        ),
        (
            {"stubPKCS10Request": csr(ec.generate_private_key(ec.SECP224R1()))},
            [
                'spec.stubPKCS10Request: Invalid value: "curve P-224": '
                "elliptic public keys must use curve P256, P384, or P521"
            ],
        ),
        (
            {**proven(KEY), "pkixPublicKey": "AAAA"},
            ['spec.pkixPublicKey: Invalid value: "AAAA": must be a valid PKIX-serialized public key'],
        ),
        (
            {**proven(KEY), "pkixPublicKey": encoded(bytes(10241))},
            ["spec.pkixPublicKey: Too long: may not be more than 10240 bytes"],
        ),
        (
            {"signerName": "s"},
            [
                'spec.signerName: Invalid value: "s": must be a fully qualified domain and path of the form '
                "'example.com/signer-name'"
            ],
        ),
        ({"podName": "P"}, ['spec.podName: Invalid value: "P": <subdomain>']),
        ({"serviceAccountName": "S"}, ['spec.serviceAccountName: Invalid value: "S": <subdomain>']),
        ({"nodeName": "N"}, ['spec.nodeName: Invalid value: "N": <subdomain>']),
        ({"podUID": ""}, ['spec.podUID: Invalid value: "": must not be empty']),
        ({"nodeUID": "x" * 129}, ["spec.nodeUID: Too long: may not be more than 128 bytes"]),
        (
            {"maxExpirationSeconds": 86401, "signerName": "kubernetes.io/x"},
            ["spec.maxExpirationSeconds: Invalid value: 86401: must be in the range [3600, 86400]"],
        ),
        (
            {"maxExpirationSeconds": 3599},
            ["spec.maxExpirationSeconds: Invalid value: 3599: must be in the range [3600, 7862400]"],
        ),
        (
            {"unverifiedUserAnnotations": {"foo": "x"}},
            [
                'spec.unverifiedUserAnnotations: Invalid value: "foo": must be a domain-prefixed key (such as "acme.io/foo")',
            ],
        ),
        (
            {"unverifiedUserAnnotations": {"": "x", "foo": "x"}},
            [
                "spec.unverifiedUserAnnotations: Required value",
                'spec.unverifiedUserAnnotations: Invalid value: "foo": must be a domain-prefixed key (such as "acme.io/foo")',
            ],
        ),
    ],
)
def test_what_is_wrong_with_a_request(api: MemoryAPI, spec: Object, wanted: list[str]) -> None:
    assert short(texts(api.ask("POST", REQUESTS, request(**spec)))) == wanted


def test_a_key_of_another_size_is_refused(api: MemoryAPI) -> None:
    spec = {"stubPKCS10Request": csr(rsa_key("short"))}
    assert texts(api.ask("POST", REQUESTS, request(**spec))) == [
        'spec.stubPKCS10Request: Invalid value: "2048-bit modulus": RSA keys must have modulus size 3072 or 4096'
    ]


def condition(kind: str, status: str = "True") -> Object:
    time = NOW.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"type": kind, "status": status, "reason": "A", "message": "", "lastTransitionTime": time}


def issued(
    key: Any = KEY,
    start: datetime.datetime = NOW,
    life: datetime.timedelta = 8 * HOUR,
    names: bytes | None = None,
    **more: Any,
) -> Object:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "p")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, start, start + life)
    if names is not None:
        extension = x509.UnrecognizedExtension(x509.SubjectAlternativeName.oid, names)
        builder = builder.add_extension(extension, critical=False)
    chain = builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()

    def text(time: datetime.datetime) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ")

    return {
        "conditions": [condition("Issued")],
        "certificateChain": chain,
        "notBefore": text(start),
        "beginRefreshAt": text(start + HOUR / 2),
        "notAfter": text(start + life),
        **more,
    }


_MAIL, _DNS = 0x81, 0x82


def names_of(tag: int, name: bytes) -> bytes:
    """Alternative names of a certificate, in DER: one, of the kind of this tag."""
    return bytes((0x30, len(name) + 2, tag, len(name))) + name


def test_a_certificate_is_issued_once(api: MemoryAPI) -> None:
    made = api.ask("POST", REQUESTS, request()).json
    done = api.ask("PUT", f"{REQUESTS}/r/status", {**made, "status": issued()})
    assert done.code == 200, done.json
    for change in (
        {"beginRefreshAt": issued()["notAfter"]},
        {"conditions": [{**condition("Issued"), "message": "another"}]},
        {"conditions": [condition("Denied")]},
    ):
        again = {**done.json, "status": {**done.json["status"], **change}}
        assert texts(api.ask("PUT", f"{REQUESTS}/r/status", again)) == [
            "status: Invalid value: immutable after PodCertificateRequest is issued, denied, or failed"
        ]


@pytest.mark.parametrize("kind", ["Denied", "Failed"])
def test_a_refusal_has_no_certificate(api: MemoryAPI, kind: str) -> None:
    made = api.ask("POST", REQUESTS, request()).json
    wrong = {**made, "status": issued(conditions=[condition(kind)])}
    assert texts(api.ask("PUT", f"{REQUESTS}/r/status", wrong)) == [
        "status: Invalid value: non-condition status fields must be empty when denying or failing the PodCertificateRequest"
    ]
    done = api.ask("PUT", f"{REQUESTS}/r/status", {**made, "status": {"conditions": [condition(kind)]}})
    assert done.code == 200
    table = api.ask("GET", REQUESTS, headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}).json
    assert table["rows"][0]["cells"][5] == kind


@pytest.mark.parametrize(
    ("status", "field", "text"),
    [
        (
            issued(certificateChain=""),
            "certificateChain",
            "issued certificate chain must contain at least one certificate",
        ),
        (
            issued(ec.generate_private_key(ec.SECP256R1())),
            "certificateChain",
            "leaf certificate was not issued to the requested public key",
        ),
        (issued(names=b"x"), "certificateChain", "leaf certificate does not parse as valid X.509"),
        *(
            (issued(names=names_of(_DNS, name)), "certificateChain", f"leaf certificate{text}")
            for name, text in (
                (b"", " should not contain empty DNSName"),
                (b"a..b", "'s DNSName should not contain '..'"),
                (b".a", "'s DNSName should not start or end with '.'"),
                (b"a.", "'s DNSName should not start or end with '.'"),
            )
        ),
        *(
            (
                issued(names=names_of(_MAIL, name)),
                "certificateChain",
                "leaf certificate should not contain invalid EmailAddress",
            )
            for name in (b"a", b"a b@c", b".a@b", b"a@b..c", b"a@b, c@d", b"a@[b]")
        ),
        (issued(start=NOW - HOUR), "notBefore", "must be set to within 5 minutes of kube-apiserver's current time"),
        (
            issued(notBefore="2023-11-14T22:13:21Z"),
            "notBefore",
            "must be set to the NotBefore time encoded in the leaf certificate",
        ),
        (
            issued(notBefore="9999-12-31T23:59:59Z"),
            "notBefore",
            "must be set to the NotBefore time encoded in the leaf certificate",
        ),
        (
            issued(notAfter="0001-01-01T00:05:00Z"),
            "notAfter",
            "must be set to the NotAfter time encoded in the leaf certificate",
        ),
        (issued(notAfter=None), "notAfter", "must be present and consistent with the issued certificate"),
        (issued(life=HOUR / 2), "certificateChain", "leaf certificate lifetime must be >= 1 hour"),
        (
            issued(life=25 * HOUR),
            "certificateChain",
            "leaf certificate lifetime must be <= spec.maxExpirationSeconds (86400)",
        ),
        (
            issued(beginRefreshAt="2023-11-14T22:14:20Z"),
            "beginRefreshAt",
            "must be at least 10 minutes after status.notBefore",
        ),
        (
            issued(conditions=[]),
            "",
            'status is immutable unless transitioning to "Issued", "Denied", or "Failed"',
        ),
        (
            issued(conditions=[condition("Issued", "False")]),
            "conditions.[0].status",
            'supported values: "True"',
        ),
        (
            issued(conditions=[{**condition("Issued"), "reason": ""}]),
            "conditions[0].reason",
            "Required value",
        ),
        (
            issued(conditions=[{**condition("Issued"), "lastTransitionTime": None}]),
            "conditions[0].lastTransitionTime",
            "Required value",
        ),
        (
            issued(conditions=[condition("Issued"), condition("Failed")]),
            "conditions.[1].type",
            'There may be at most one condition with type "Issued", "Denied", or "Failed"',
        ),
        (
            issued(certificateChain="c" * ((100 << 10) + 1)),
            "certificateChain",
            "Too long: may not be more than 102400 bytes",
        ),
        (
            issued(conditions=[condition("Done")]),
            "conditions.[0].type",
            'supported values: "Issued", "Denied", "Failed"',
        ),
    ],
)
def test_what_a_signer_may_not_write(api: MemoryAPI, status: Object, field: str, text: str) -> None:
    made = api.ask("POST", REQUESTS, request()).json
    (found,) = texts(api.ask("PUT", f"{REQUESTS}/r/status", {**made, "status": status}))
    assert found.startswith(f"status.{field}: " if field else "status: ") and found.endswith(text)


CERTIFICATE = issued()["certificateChain"]
OTHER_BLOCK = CERTIFICATE.replace("CERTIFICATE", "OTHER")
UNREADABLE = pem("CERTIFICATE", b"x")


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ([CERTIFICATE, CERTIFICATE], ""),
        ([OTHER_BLOCK], "issued certificate chain must consist entirely of CERTFICATE PEM blocks"),
        ([UNREADABLE], "intermediate certificate does not parse as valid X.509"),
        ([CERTIFICATE, OTHER_BLOCK], "issued certificate chain must consist entirely of CERTFICATE PEM blocks"),
        ([CERTIFICATE, UNREADABLE], "intermediate certificate does not parse as valid X.509"),
    ],
    ids=["certificates", "another block first", "no certificate first", "another block last", "no certificate last"],
)
def test_what_follows_the_leaf(api: MemoryAPI, more: list[str], text: str) -> None:
    made = api.ask("POST", REQUESTS, request()).json
    answer = api.ask(
        "PUT", f"{REQUESTS}/r/status", {**made, "status": issued(certificateChain="".join([CERTIFICATE, *more]))}
    )
    if not text:
        assert answer.code == 200, answer.json
        return
    (found,) = texts(answer)
    assert found.startswith("status.certificateChain: Invalid value: ") and found.endswith(text)


class SignersOf:
    """Lets a user do everything but sign for others than these."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)

    def authorize(self, attributes: Attributes) -> Verdict:
        allowed = attributes.resource != "signers" or attributes.name in self.names and attributes.verb == "sign"
        return Verdict(Decision.ALLOW if allowed else Decision.NO_OPINION)


@pytest.mark.parametrize("names", [("example.com/signer",), ("example.com/*",), ()])
@pytest.mark.parametrize("decision", ["Issued", "Denied", "Failed"])
def test_only_those_decide_who_may_sign(names: tuple[str, ...], decision: str) -> None:
    api = started(SignersOf(names))
    made = api.ask("POST", REQUESTS, request()).json
    status = issued() if decision == "Issued" else {"conditions": [condition(decision)]}
    answer = api.ask("PUT", f"{REQUESTS}/r/status", {**made, "status": status})
    if names:
        assert answer.code == 200
        return
    assert texts(answer) == [
        'spec.signerName: Forbidden: User "tester" is not permitted to "sign" for signer "example.com/signer"'
    ]
    labelled = {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}}
    assert api.ask("PUT", f"{REQUESTS}/r/status", labelled).code == 200  # the status stays


SECOND = datetime.timedelta(seconds=1)


def refreshed(after: datetime.timedelta, **more: Any) -> Object:
    return issued(beginRefreshAt=(NOW + after).strftime("%Y-%m-%dT%H:%M:%SZ"), **more)


@pytest.mark.parametrize(
    ("status", "good"),
    [
        (issued(start=NOW - 299 * SECOND), True), (issued(start=NOW - 300 * SECOND), False),
        (issued(start=NOW + 299 * SECOND), True), (issued(start=NOW + 300 * SECOND), False),
        (issued(life=HOUR), True), (issued(life=HOUR - SECOND), False),
        (issued(life=24 * HOUR), True), (issued(life=24 * HOUR + SECOND), False),
        (refreshed(HOUR / 6), True), (refreshed(HOUR / 6 - SECOND), False),
        (refreshed(8 * HOUR - HOUR / 6), True), (refreshed(8 * HOUR - HOUR / 6 + SECOND), False),
    ],
)  # fmt: skip
def test_times_of_a_certificate_at_their_limits(api: MemoryAPI, status: Object, good: bool) -> None:
    made = api.ask("POST", REQUESTS, request()).json
    assert (api.ask("PUT", f"{REQUESTS}/r/status", {**made, "status": status}).code == 200) is good


def test_a_chain_is_read_up_to_its_largest_size(api: MemoryAPI) -> None:
    made = api.ask("POST", REQUESTS, request()).json
    for size, text in ((100 << 10, "must contain at least one certificate"), ((100 << 10) + 1, "Too long")):
        status = issued(certificateChain="c" * size)
        (found,) = texts(api.ask("PUT", f"{REQUESTS}/r/status", {**made, "status": status}))
        assert text in found
    chain = issued()["certificateChain"]
    for more, text in (
        (pem("CERTIFICATE", b"x"), "intermediate certificate does not parse as valid X.509"),
        (pem("KEY", b"x"), "must consist entirely of CERTFICATE PEM blocks"),
        (chain + pem("KEY", b"x"), "must consist entirely of CERTFICATE PEM blocks"),
    ):
        status = issued(certificateChain=chain + more)
        (found,) = texts(api.ask("PUT", f"{REQUESTS}/r/status", {**made, "status": status}))
        assert found.endswith(text)
