"""Names of signers: a domain with a dot, and a path of subdomains."""

from __future__ import annotations

import pytest

from kapi.machinery.field import FieldError, Path
from kapi.resources.shared.signers import validate_signer_name
from tests.resources.strategy_kit import short

LONG = ".".join(["a" * 63] * 4)  # 255


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("example.com/signer.of-mine", []),
        ("", ["Required value"]),
        ("example.com", [
            "Invalid value: \"example.com\": must be a fully qualified domain and path of the form 'example.com/signer-name'"
        ]),
        ("example.com/a/b", [
            "Invalid value: \"example.com/a/b\": must be a fully qualified domain and path of the form "
            "'example.com/signer-name'"
        ]),
        ("com/a", ['Invalid value: "com": should be a domain with at least two segments separated by dots']),
        ("A.com/a", ['Invalid value: "A.com": validating label "A": <label>']),
        ("a.com/A", ['Invalid value: "A": validating label "A": <subdomain>']),
        (f"{LONG}/a", ["Too long: may not be more than 253 bytes"]),
        (f"{LONG[:253]}/{'.'.join(['a' * 63] * 5)}", ["Too long: may not be more than 571 bytes"]),
    ],
)  # fmt: skip
def test_name(name: str, texts: list[str]) -> None:
    errors: list[FieldError] = []
    validate_signer_name(name, Path("signerName"), errors)
    assert short([str(error) for error in errors], "signerName: ") == texts
