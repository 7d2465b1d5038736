"""Who may change what of a CertificateSigningRequest."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kapi.machinery import tree
from kapi.request.user import UserInfo
from kapi.resources.certificates.certificatesigningrequests import RESOURCE
from kapi.resources.definition import Strategy, StrategyContext

Object = dict[str, Any]
CTX = StrategyContext("", "a", user=UserInfo("jane", "7", ("g",), {"k": ("v",)}), now="2024-01-01T00:00:00Z")


def request() -> str:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "jane")])
    made = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(name)
        .sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    )
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


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
        ({"expirationSeconds": 599}, "spec.expirationSeconds: Invalid value: 599"),
    ],
)
def test_what_is_refused(spec: Object, text: str) -> None:
    found = [str(error) for error in RESOURCE.strategy.validate(made(**spec), CTX)]
    assert len(found) == 1 and found[0].startswith(text), found


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


def test_the_certificate_is_the_signers_and_set_once() -> None:
    garbage = base64.b64encode(b"x").decode()
    _, found = change("status", made(), certificate=garbage)
    assert found == [
        'status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block'
    ]
    kept, found = change("approval", made(), certificate=garbage)
    assert ("certificate" in kept["status"], found) == (False, [])
