"""Plain YAML is read as all YAML is, or left to the reader of all."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kapi.codecs import plain_yaml, yaml_reading

KUBECONFIG = b"""apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSQ==
    server: https://127.0.0.1:6443
  name: kind-kind
- cluster:
    server: "https://10.0.0.1:443"
  name: other
contexts:
- context:
    cluster: kind-kind
    user: kind-kind
  name: kind-kind
current-context: kind-kind
kind: Config
preferences: {}
users:
  - name: kind-kind
    user:
      exec:
        args:
        - token
        - get-token
        command: aws
        env: {}
"""
PARTS = [
    "a", "b", "kind", "y", "no", "null", "1", "0x1", "1e3", "~", ".inf", "<<", "key", "a-b", "a b", "x:y", "a:", "-", "- ",
    "- - ", ": ", ":", "\n", "\n  ", "\n    ", "\n- ", "\n  - ", " ", "{}", "[]", '""', '"a"', "'a'", '"\\n"', "#", " # c",
    "|", ">", "&a ", "*a", "!!str ", "---", "...", "\t", "\r", "é", "{a: b}", "?", "%", "@a", "`", "2001-01-01", "=",
]  # fmt: skip


def read(text: bytes) -> Any:
    """The tree as YAML has it, or what is wrong with it."""
    try:
        tree, duplicates = yaml_reading.loads(text)
    except yaml_reading.YAMLError as error:
        return error
    return tree if not duplicates else duplicates


def test_a_kubeconfig_is_plain() -> None:
    found = plain_yaml.loads(KUBECONFIG)
    assert found is not None
    assert found == read(KUBECONFIG)
    assert found["users"] == [
        {"name": "kind-kind", "user": {"exec": {"args": ["token", "get-token"], "command": "aws", "env": {}}}}
    ]


@given(st.lists(st.sampled_from(PARTS), max_size=14).map("".join))
def test_any_text_is_read_as_all_yaml_is_or_not_at_all(text: str) -> None:
    found = plain_yaml.loads(text.encode())
    assert found is None or found == read(text.encode())


SIMPLE = st.text("abyno019-_./:=+@", max_size=6)


@given(
    st.dictionaries(SIMPLE, st.recursive(SIMPLE, lambda of: st.lists(of) | st.dictionaries(SIMPLE, of), max_leaves=8)),
    st.booleans(),
)
def test_what_is_written_is_read(tree: Any, indented: bool) -> None:
    text = yaml.safe_dump(tree, width=1000, indent=4 if indented else 2).encode()
    found = plain_yaml.loads(text)
    assert found is None or found == read(text) == tree


@pytest.mark.parametrize(
    "text",
    [
        b"", b"a: 1", b"a:", b"a: yes", b"a: b c", b"a: b # c", b"a: |\n  b", b"a: &x b", b"a: 'b'", b"a: b\na: c", b"- a: b",
        b"a: b\n  c: d", b"a:\n    b: c\n  d: e", b"a:\n  - b\n c: d", b"a: b\r\n", b"a: \xc3\xa9", b"a: b\n---\nc: d", b"{a: b}",
        b'a: "\\nb"', b'a: "b\\"', b'a: "bc\\n"', b'a: "', b'a: "b', b'a: b"', b"a:\nb: c", b"a: b\n - c", b"a:\n  - b\n  c: d",
        b"a:\n- b\n  - c",
    ],
)  # fmt: skip
def test_other_texts_are_left_to_all_of_yaml(text: bytes) -> None:
    assert plain_yaml.loads(text) is None


def test_nesting_has_a_bound() -> None:
    def nested(levels: int) -> bytes:
        return "".join(f"{' ' * level}a:\n" for level in range(levels - 1)).encode() + b" " * (levels - 1) + b"a: b\n"

    found = plain_yaml.loads(nested(20))
    assert found is not None and found == read(nested(20))
    assert plain_yaml.loads(nested(21)) is None
