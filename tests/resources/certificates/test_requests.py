"""Who may change what of a CertificateSigningRequest."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from kapi.machinery import tree
from kapi.machinery.field import FieldError
from kapi.machinery.tree import Object
from kapi.request.user import UserInfo
from kapi.resources.certificates.certificatesigningrequests import RESOURCE, _usages, validate_change
from kapi.resources.definition import Strategy, StrategyContext
from tests.admission.certificates import make_unreadable_request

CTX = StrategyContext("", "a", user=UserInfo("jane", "7", ("g",), {"k": ("v",)}), now="2024-01-01T00:00:00Z")


LEGACY = "kubernetes.io/legacy-unknown"


def signed(key: Any = None) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "jane")])
    key = key or ec.generate_private_key(ec.SECP256R1())
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    made = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, algorithm)
    return made.public_bytes(serialization.Encoding.DER)


def encoded(der: bytes, kind: str = "CERTIFICATE REQUEST", header: bytes = b"") -> str:
    """What stands in the JSON of an object for a block of PEM."""
    pem = b"-----BEGIN %b-----\n%b%b\n-----END %b-----\n"
    return base64.b64encode(pem % (kind.encode(), header, base64.b64encode(der), kind.encode())).decode()


def request() -> str:
    return encoded(signed())


GOOD = {"request": request(), "signerName": "example.com/s", "usages": ["client auth"]}


def made(**spec: Any) -> Object:
    obj: Object = {"metadata": {"name": "a"}, "spec": {**GOOD, **spec}}
    RESOURCE.strategy.prepare_for_create(obj, CTX)
    obj["metadata"].update(uid="u", resourceVersion="1")
    return obj


def change(where: str, old: Object, **status: Any) -> tuple[Object, list[str]]:
    strategy: Strategy = RESOURCE.strategy
    if where:
        sub = RESOURCE.subresource(where)
        assert sub is not None and sub.strategy is not None
        strategy = sub.strategy
    new = tree.copy(old)
    new["status"] = {**new.get("status", {}), **status}
    strategy.prepare_for_update(new, old, CTX)
    return new, [str(error) for error in strategy.validate_update(new, old, CTX)]


def test_the_requester_is_recorded_whatever_the_body_says() -> None:
    spec = made(username="root", groups=["system:masters"])["spec"]
    assert (spec["username"], spec["uid"], spec["groups"], spec["extra"]) == ("jane", "7", ["g"], {"k": ["v"]})


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"request": ""}, 'spec.request: Invalid value: "": PEM block type must be CERTIFICATE REQUEST'),
        ({"usages": []}, "spec.usages: Required value"),
        ({"usages": ["x"]}, 'spec.usages[0]: Unsupported value: "x"'),
        ({"usages": ["any", "any"]}, 'spec.usages[1]: Duplicate value: "any"'),
        ({"signerName": "kubernetes.io/legacy-unknown"}, "spec.signerName: Invalid value"),
        ({"signerName": "s"}, "spec.signerName: Invalid value"),
        ({"expirationSeconds": 599}, "spec.expirationSeconds: Invalid value: 599"),
    ],
)
def test_what_is_refused(spec: Object, text: str) -> None:
    found = [str(error) for error in RESOURCE.strategy.validate(made(**spec), CTX)]
    assert len(found) == 1 and found[0].startswith(text), found


def test_a_subject_that_is_no_text_is_refused() -> None:
    unreadable = base64.b64encode(make_unreadable_request("n")).decode()
    (found,) = map(str, RESOURCE.strategy.validate(made(request=unreadable), CTX))
    assert found.startswith("spec.request: ") and found.endswith(": x509: malformed certificate request")


APPROVED = {"type": "Approved", "status": "True"}
DENIED = {"type": "Denied", "status": "True"}


def test_only_the_approval_endpoint_approves() -> None:
    main, found = change("", made(), conditions=[APPROVED])
    assert (main["status"], found) == ({}, [])
    _, found = change("status", made(), conditions=[APPROVED])
    assert found == ['status.conditions: Forbidden: updates may not add a condition of type "Approved"']
    approved, found = change("approval", made(), conditions=[APPROVED])
    assert found == []
    assert approved["status"]["conditions"][0]["lastTransitionTime"] == CTX.now


def test_an_approval_lasts_and_excludes_denial() -> None:
    old, _ = change("approval", made(), conditions=[APPROVED])
    _, found = change("approval", old, conditions=[])
    assert found == ['status.conditions: Forbidden: updates may not remove a condition of type "Approved"']
    _, found = change("approval", old, conditions=[*old["status"]["conditions"], DENIED])
    assert found == [
        'status.conditions: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive'
    ]


@pytest.mark.parametrize(
    ("condition", "texts"),
    [
        ({"type": "Any", "status": "Unknown"}, []),
        ({"type": "", "status": "True"}, ["status.conditions[0].type: Required value"]),
        ({"type": "Any", "status": ""}, ["status.conditions[0].status: Required value"]),
        ({"type": "Any", "status": "X"},
         ['status.conditions[0].status: Unsupported value: "X": supported values: "False", "True", "Unknown"']),
        ({"type": "Failed", "status": "False"},
         ['status.conditions[0].status: Unsupported value: "False": supported values: "True"']),
    ],
)  # fmt: skip
def test_conditions(condition: Object, texts: list[str]) -> None:
    assert change("status", made(), conditions=[condition])[1] == texts


def test_a_condition_is_given_once() -> None:
    known = {"type": "Any", "status": "True"}
    assert change("status", made(), conditions=[known, known])[1] == [
        'status.conditions[1].type: Duplicate value: "Any"'
    ]


def test_what_of_the_status_a_strategy_does_not_keep_is_refused() -> None:
    """Only what the endpoint is for may change, also where nothing puts the rest back."""
    old, new = made(), made()
    old["status"] = {"conditions": [APPROVED], "certificate": "YQ=="}
    new["status"] = {"conditions": [{**APPROVED, "reason": "Mine"}], "certificate": "Yg=="}

    def found(*, approval: bool, certificate: bool) -> list[str]:
        errors: list[FieldError] = []
        validate_change(new, old, errors, approval=approval, certificate=certificate)
        return [str(error) for error in errors]

    modified = 'status.conditions: Forbidden: updates may not modify a condition of type "Approved"'
    assert found(approval=False, certificate=False) == [
        modified, "status.certificate: Forbidden: updates may not set certificate content",
    ]  # fmt: skip
    assert found(approval=False, certificate=True) == [
        modified, "status.certificate: Forbidden: updates may not modify existing certificate content",
    ]  # fmt: skip


def test_a_signer_leaves_the_approval_as_it_was() -> None:
    old, _ = change("approval", made(), conditions=[APPROVED])
    new, found = change("status", old, conditions=[{**APPROVED, "reason": "Mine"}])
    assert (new["status"]["conditions"], found) == (old["status"]["conditions"], [])


def test_the_certificate_is_the_signers_and_set_once() -> None:
    garbage = base64.b64encode(b"x").decode()
    _, found = change("status", made(), certificate=garbage)
    assert found == [
        'status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block'
    ]
    kept, found = change("approval", made(), certificate=garbage)
    assert ("certificate" in kept["status"], found) == (False, [])


@pytest.mark.parametrize(
    ("generate", "text"),
    [
        (lambda: ec.generate_private_key(ec.SECP256R1()), "x509: ECDSA verification failure"),
        (ed25519.Ed25519PrivateKey.generate, "x509: Ed25519 verification failure"),
        (lambda: rsa.generate_private_key(65537, 2048), "crypto/rsa: verification error"),
    ],
)
def test_the_signature_of_a_request_is_checked(generate: Callable[[], Any], text: str) -> None:
    key = generate()
    assert RESOURCE.strategy.validate(made(request=encoded(signed(key))), CTX) == []
    forged = encoded(signed(key).replace(b"jane", b"jack"))
    (found,) = RESOURCE.strategy.validate(made(request=forged), CTX)
    assert (str(found.field), found.detail) == ("spec.request", text)


@pytest.mark.parametrize(
    ("certificate", "text"),
    [
        (encoded(b"x", "PRIVATE KEY"), 'only CERTIFICATE PEM blocks are allowed, found "PRIVATE KEY"'),
        (encoded(b"x", "CERTIFICATE", b"Key: value\n\n"), "no PEM block headers are permitted"),
        (encoded(b"", "CERTIFICATE"), "found CERTIFICATE PEM block containing 0 certificates"),
        (encoded(b"x", "CERTIFICATE"), "x509: malformed certificate"),
        ("%", ""), ("", ""),
    ],
)  # fmt: skip
def test_what_is_no_certificate(certificate: str, text: str) -> None:
    _, found = change("status", made(), certificate=certificate)
    assert found == ([f'status.certificate: Invalid value: "<certificate data>": {text}'] if text else [])


@pytest.mark.parametrize(
    ("before", "after", "texts"),
    [
        (["any"], ["any", "x"], ["spec.usages[1]: Unsupported value"]), (["x"], ["x", "y"], []),
        (["any"], ["any", "any"], ["spec.usages[1]: Duplicate value"]), (["any", "any"], ["any", "any"], []),
        (["any"], [], ["spec.usages: Required value"]), ([], ["any"], []),
        (["x", "x"], ["y", "y"], []), (["x"], ["y", "y"], ["spec.usages[1]: Duplicate value"]),
    ],
)  # fmt: skip
def test_usages_that_a_stored_request_has_may_stay(before: list[str], after: list[str], texts: list[str]) -> None:
    """One with an unknown usage may have others, and one with a usage twice may have another twice."""
    errors: list[FieldError] = []
    _usages({"usages": after}, {"usages": before}, errors)
    assert [str(error).partition(': "')[0] for error in errors] == texts


@pytest.mark.parametrize(
    ("before", "legacy"), [(None, True), ({"spec": {}}, True), ({"spec": {"signerName": LEGACY}}, False)]
)
def test_a_stored_request_may_keep_the_legacy_signer(before: Object | None, legacy: bool) -> None:
    errors: list[FieldError] = []
    RESOURCE.strategy.check(made(signerName=LEGACY), before, errors, CTX)  # type: ignore[attr-defined]
    found = [str(error) for error in errors]
    assert any("the legacy signerName is not allowed via this API version" in text for text in found) is legacy
