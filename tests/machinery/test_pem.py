"""Blocks of PEM as Go finds them: what a check reads is what a signer in Go reads."""

from __future__ import annotations

import base64

import pytest

from kapi.machinery.pem import authority_pool, blocks


def block(kind: str, content: bytes, header: str = "", end: str = "-----") -> bytes:
    text = base64.b64encode(content).decode()
    return f"-----BEGIN {kind}-----\n{header}{text}\n-----END {kind}{end}\n".encode()


A, B = block("A", b"a!"), block("B", b"b")


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (A, ["A"]),
        (A + b"text\n" + B, ["A", "B"]),
        (A.replace(b"\n", b" \t\r\n"), ["A"]),
        (A[:-1], ["A"]),
        (b"x" + A + B, ["B"]),  # text before it on its line
        (b"x\n" + A, ["A"]),
        (b"-----BEGIN C-----\n" + A, ["A"]),  # the last beginning before the end
        (b"-----BEGIN C-----\n-----END D-----\n" + A, ["A"]),
        (block("A", b"", end="----- x") + B, ["B"]),
        (A.replace(b"YSE=", b"YSE") + B, ["B"]),
        (A.replace(b"YSE=", b"YSE==") + B, ["B"]),
        (A.replace(b"YSE=", b"YSEh=") + B, ["B"]),
        (A.replace(b"YSE=", b"YSEh====") + B, ["B"]),
        (A.replace(b"YSE=", b"YS\x0bE=") + B, ["B"]),
        (A.replace(b"YSE=", b"Y S\tE\n=") + B, ["A", "B"]),
        (b"-----BEGIN A-----\n-----END A-----\n" + B, ["A", "B"]),
        (b"-----BEGIN A-----\nk: v\n-----END A-----\n" + B, ["B"]),
        (block("A", b"a", "k: v\nl:\n\n") + B, ["A+", "B"]),
        (b"-----BEGIN A\n" + B, ["B"]),
        (b"-----BEGIN A-----", []),
        (b"-----BEGIN A-----\nk: v\n-----END ", []),
        (b"-----BEGIN A-----\n-----END ", []),
        (b"-----BEGIN A-----\n-----END A-----", ["A"]),
        (b"-----BEGIN A-----\nk:v", []),
        (b"\n-----END A-----\n" * 3, []),
        (b"", []),
    ],
)
def test_what_is_a_block(data: bytes, found: list[str]) -> None:
    assert [each.kind + ("+" if each.headers else "") for each in blocks(data)] == found


def test_contents() -> None:
    first, second = blocks(A + block("B", b"b" * 99, "k: v\n\n"))
    assert (first.der, second.der) == (b"a!", b"b" * 99)
    assert (A + B)[first.end :] == B


@pytest.mark.parametrize(
    ("bundle", "why"),
    [
        (b"", "unable to parse bytes as PEM block"), (b"x", "unable to parse bytes as PEM block"),
        (A + b"x", "unable to parse bytes as PEM block"), (A, "no valid certificate authority data seen"),
        (block("CERTIFICATE", b"a"), "failed to parse certificate: x509: malformed certificate"),
    ],
)  # fmt: skip
def test_a_bundle_without_certificates(bundle: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{why}$"):
        authority_pool(bundle)
