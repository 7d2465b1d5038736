"""Encryption at rest: what is stored, who can read it, rotation, and files that are wrong."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from kapi.store.encryption.configuration import EncryptionError, load_encryption
from kapi.store.encryption.providers import AesGcm
from kapi.store.encryption.transformer import Encryption
from kapi.store.interface import CREATED, DELETED, Change, StoredObject

KEY = "core/secrets/ns/name"
HEAD, TAIL = b'{"metadata":{"resourceVersion":"', b'"},"data":"plain text"}'


NEEDS_NACL = pytest.mark.skipif(find_spec("nacl") is None, reason="needs PyNaCl")
KINDS = ["aescbc", "aesgcm", pytest.param("secretbox", marks=NEEDS_NACL)]


def secret(letter: str, size: int = 32) -> str:
    return base64.b64encode(letter.encode() * size).decode()


def provider(kind: str, *letters: str) -> Any:
    if kind == "identity":
        return {"identity": {}}
    return {kind: {"keys": [{"name": f"key-{letter}", "secret": secret(letter)} for letter in letters]}}


def kms(**more: Any) -> Any:
    return {"kms": {"apiVersion": "v2", "name": "one", "endpoint": "unix:///tmp/none.sock", "timeout": "1s", **more}}


def file(*providers: Any, resources: Sequence[str] = ("secrets",)) -> bytes:
    tree = {
        "kind": "EncryptionConfiguration",
        "apiVersion": "apiserver.config.k8s.io/v1",
        "resources": [{"resources": list(resources), "providers": list(providers)}],
    }
    return yaml.safe_dump(tree).encode()


def made(*providers: Any, resources: Sequence[str] = ("secrets",)) -> Encryption:
    return Encryption(load_encryption(file(*providers, resources=resources)))


def stored(encryption: Encryption, revision: int = 12, key: str = KEY) -> bytes:
    head, tail = encryption.to_storage(key, HEAD, TAIL)
    return head + b"%d" % revision + tail


def plain(revision: int = 12) -> bytes:
    return HEAD + b"%d" % revision + TAIL


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_stored_has_upstreams_prefix_and_no_plain_text(kind: str) -> None:
    encryption = made(provider(kind, "a"), provider("identity"))
    data = stored(encryption)
    assert data.startswith(f"k8s:enc:{kind}:v1:key-a:".encode())
    assert b"plain" not in data and b"metadata" not in data
    assert stored(encryption) != data, "the same object is never stored alike"
    assert encryption.from_storage(KEY, 12, data) == plain()


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_value_is_not_taken_for_an_object(kind: str) -> None:
    encryption = made(provider(kind, "a"))
    data = bytearray(stored(encryption))
    data[-8] ^= 1
    assert not encryption.from_storage(KEY, 12, bytes(data)).endswith(TAIL)
    others = made(provider(kind, "b"))
    assert others.from_storage(KEY, 12, bytes(data)) == data
    assert [row[1] for row in others.operations.rows] == ["no matching prefix found"]


SHORT, PADDING = "the stored data was shorter than the required size", "invalid padding on input"
NOT_PADDED = "invalid PKCS7 data (empty or not padded)"


def sealed(text: bytes) -> bytes:
    """These blocks as aescbc seals them, without padding."""
    encryptor = Cipher(algorithms.AES(b"a" * 32), modes.CBC(b"v" * 16)).encryptor()
    return b"v" * 16 + encryptor.update(text) + encryptor.finalize()


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        ("aesgcm", b"x" * 11, SHORT),
        ("aesgcm", b"x" * 12, "cipher: message authentication failed"),
        ("aescbc", b"x" * 15, SHORT),
        ("aescbc", b"x" * 16, NOT_PADDED),
        ("aescbc", b"x" * 31, "the stored data is not a multiple of the block size"),
        ("aescbc", sealed(b"x" * 15 + b"\x00"), NOT_PADDED),
        ("aescbc", sealed(b"x" * 15 + b"\x11"), NOT_PADDED),
        ("aescbc", sealed(b"x" * 15 + b"\x02"), PADDING),
        pytest.param("secretbox", b"x" * 39, SHORT, marks=NEEDS_NACL),
        pytest.param("secretbox", b"x" * 40, "output array was not large enough for encryption", marks=NEEDS_NACL),
    ],
)
def test_why_a_value_cannot_be_read(kind: str, value: bytes, why: str) -> None:
    encryption = made(provider(kind, "a"))
    data = f"k8s:enc:{kind}:v1:key-a:".encode() + value + b"12"
    assert encryption.from_storage(KEY, 12, data) == data
    assert [row[1] for row in encryption.operations.rows] == [why]


def test_a_value_under_another_name_cannot_be_read() -> None:
    encryption = made(provider("aesgcm", "a"))
    data = stored(encryption)
    assert encryption.from_storage("core/secrets/ns/other", 12, data) == data
    assert ("secrets", "cipher: message authentication failed", "from_storage", "k8s:enc:aesgcm:v1:key-a:") in (
        encryption.operations.rows
    )


def test_the_first_key_writes_and_all_read() -> None:
    old = stored(made(provider("aescbc", "a")))
    rotated = made(provider("aesgcm", "b"), provider("aescbc", "c", "a"))
    assert rotated.from_storage(KEY, 12, old) == plain()
    assert stored(rotated).startswith(b"k8s:enc:aesgcm:v1:key-b:")


def test_plain_text_is_read_where_the_file_says_so() -> None:
    assert made(provider("aesgcm", "a"), provider("identity")).from_storage(KEY, 12, plain()) == plain()
    assert made(provider("aesgcm", "a")).from_storage(KEY, 0, b"foreign") == b"foreign"
    assert made(provider("aesgcm", "a")).from_storage("core/pods/ns/a", 12, plain()) == plain()
    refused = made(provider("aesgcm", "a")).from_storage(KEY, 12, plain())
    assert refused != plain() and not refused.startswith(b"{")


def test_only_the_resources_that_are_named_are_encrypted() -> None:
    names = {
        "secrets": [KEY], "configmaps.": ["core/configmaps/n/a"], "*.apps": ["apps/deployments/n/a"],
        "*.": [KEY, "core/configmaps/n/a"],
    }  # fmt: skip
    keys = [KEY, "core/configmaps/n/a", "apps/deployments/n/a", "example.com/things/n/a"]
    names["*.*"] = keys
    for name, wanted in names.items():
        encryption = made(provider("aesgcm", "a"), resources=[name])
        assert [key for key in keys if encryption.to_storage(key, HEAD, TAIL)[0] != HEAD] == wanted


def several(*rules: tuple[list[str], list[Any]]) -> bytes:
    """A file with a rule for each pair of resources and providers."""
    tree = yaml.safe_load(file())
    tree["resources"] = [{"resources": names, "providers": providers} for names, providers in rules]
    return yaml.safe_dump(tree).encode()


def test_a_resource_has_the_providers_of_all_its_rules_or_else_those_of_a_star() -> None:
    (a, b, c), identity = (provider("aesgcm", letter) for letter in "abc"), provider("identity")
    encryption = Encryption(
        load_encryption(several((["secrets"], [a]), (["secrets", "configmaps"], [b, identity]), (["*.*"], [c])))
    )
    assert stored(encryption).startswith(b"k8s:enc:aesgcm:v1:key-a:")
    assert encryption.from_storage(KEY, 12, stored(made(b))) == plain()
    assert encryption.from_storage(KEY, 12, plain()) == plain()
    assert encryption.from_storage(KEY, 12, stored(made(c))) != plain()
    for key, letter in (("core/configmaps/n/a", b"b"), ("apps/deployments/n/a", b"c")):
        assert stored(encryption, key=key).startswith(b"k8s:enc:aesgcm:v1:key-" + letter)


@pytest.mark.parametrize(
    ("earlier", "later", "masked", "mask"),
    [
        ("*.", "secrets", "secrets", "*."),
        ("*.apps", "deployments.apps", "deployments.apps", "*.apps"),
        ("*.*", "*.", "*.", "*.*"),
        ("*.*", "*.*", "*.*", "*.*"),
        ("*.apps", "secrets", "", ""),
        ("secrets", "*.", "", ""),
    ],
)
def test_a_rule_behind_one_for_more_resources_is_refused(earlier: str, later: str, masked: str, mask: str) -> None:
    content, found = several(([earlier], [provider("identity")]), ([later], [provider("identity")])), ""
    try:
        load_encryption(content)
    except EncryptionError as error:
        found = str(error)
    assert found == (f'resource "{masked}" is masked by earlier rule "{mask}"' if masked else "")


def test_what_was_stored_encrypted_is_stored_as_it_is() -> None:
    """As for what expires, whose halves are taken from the store."""
    encryption = made(provider("aesgcm", "a"))
    head, tail = encryption.to_storage(KEY, HEAD, TAIL)
    assert encryption.to_storage(KEY, head, tail) == (head, tail)


def test_what_was_just_written_is_not_decrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its change comes back at once, and the plain text is still there: also of several writes under way."""
    encryption = made(provider("aesgcm", "a"))
    other = f"{KEY}2"
    values = {key: stored(encryption, key=key) for key in (KEY, other)}
    decrypted: list[bytes] = []
    decrypt = AesGcm.decrypt
    monkeypatch.setattr(AesGcm, "decrypt", lambda self, data, of: (decrypted.append(of), decrypt(self, data, of))[1])
    for wanted in ([], [KEY.encode(), other.encode()]):
        assert [encryption.from_storage(key, 12, value) for key, value in values.items()] == [plain(), plain()]
        assert decrypted == wanted


class Follower:
    def __init__(self) -> None:
        self.objects: list[StoredObject] = []
        self.changes: list[Change] = []

    def reset(self, objects: Iterable[StoredObject], history: Sequence[Change], revision: int) -> None:
        self.objects, self.changes = list(objects), list(history)

    def changed(self, changes: Sequence[Change]) -> None:
        self.changes += changes


def test_a_follower_gets_plain_text_and_what_another_key_wrote_is_stale() -> None:
    old = made(provider("aesgcm", "a"))
    encryption = made(provider("aesgcm", "b", "a"), provider("identity"))
    follower = Follower()
    between = encryption.following(follower)
    other = "core/secrets/ns/plain"
    foreign = StoredObject("strange", 0, b"?")
    objects = [StoredObject(KEY, 12, stored(old)), StoredObject(other, 7, plain(7)), foreign]
    between.reset(objects, [Change(12, CREATED, KEY, stored(old))], 12)
    assert follower.objects == [StoredObject(KEY, 12, plain()), StoredObject(other, 7, plain(7)), foreign]
    assert follower.changes == [Change(12, CREATED, KEY, plain())]
    assert encryption.stale(KEY) and encryption.stale(other)
    between.changed(
        [Change(13, "u", KEY, stored(encryption, 13)), Change(14, DELETED, other, stored(encryption, 14, other))]
    )
    assert [change.data for change in follower.changes[1:]] == [plain(13), plain(14)]
    assert not encryption.stale(KEY) and not encryption.stale(other)
    encryption.replace(load_encryption(file(provider("aesgcm", "c", "b"))))
    assert encryption.stale(KEY)
    encryption.replace(load_encryption(file(provider("aesgcm", "c"), resources=["configmaps"])))
    assert encryption.stale(KEY), "it would be stored in plain text"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "not YAML"),
        (b"[" * 100_000, "not YAML: yaml: exceeded maximum nesting depth"),
        (b"resources: []\n" * 2, 'strict decoding error: line 2: key "resources" already set in map'),
        (b"kind: EncryptionConfiguration", "want kind EncryptionConfiguration"),
        (file(), "resources[0].providers: Required value: at least one"),
        (file({"aesgcm": {}, "identity": {}}), "more than one provider specified in a single element"),
        (file({"aesgcm": {"keys": []}}), "providers[0].aesgcm.keys: Required value"),
        (file({"rot13": {}}), 'unknown field "resources[0].providers[0].rot13"'),
        (file({"kms": {"name": "x"}}), "KMSv1 is deprecated"),
        (file({"kms": {"apiVersion": "v2", "name": "x"}}), "endpoint is a mandatory field for a kms"),
        (file(kms(name="")), "name is a mandatory field for a provider"),
        (file(kms(name="a:b")), "must not contain ':'"),
        (file(kms(), kms()), "duplicate KMS provider name one, names must be unique"),
        (file(kms(endpoint="tcp://x")), 'unsupported scheme "tcp" for KMS provider, only unix is supported'),
        (file(kms(timeout="0s")), "timeout should be a positive value"),
        (file(kms(timeout="-1s")), "timeout should be a positive value"),
        (file(kms(timeout="soon")), "timeout should be a positive value"),
        (file(kms(cachesize=1)), "cachesize is not supported in v2"),
        (file(kms(apiVersion="v3")), "only v1 and v2 are supported"),
        (
            file({"aescbc": {"keys": [{"name": "a", "secret": secret("a", 15)}]}}),
            "secret is not of the expected length, got 15, expected one of [16 24 32]",
        ),
        (file({"aescbc": {"keys": [{"name": "a", "secret": "=*="}]}}), "secrets must be base64 encoded"),
        (
            file({"aescbc": {"keys": [{"name": "a", "secret": 7}]}}),
            "resources[0].providers[0].aescbc.keys[0].secret: must",
        ),
        (file({"aescbc": {"keys": [None]}}), "keys[0].name: Required value"),
        (file({"identity": {"a": "b"}}), 'unknown field "resources[0].providers[0].identity.a"'),
        (file(kms(name=["a"])), "kms.name: must be a string"),
        (file(None), "resources[0].providers[0]: Invalid value: provider does not contain any"),
        (file(provider("identity"), resources=["*"]), "use '*.' to encrypt all the resources from core API group"),
        (file(provider("identity"), resources=["Secrets"]), "should not contain capital letters"),
        *(
            (file(provider("identity"), resources=[name]), "resources which do not have REST API/s cannot be encrypted")
            for name in ("apiserveripinfo", "serviceipallocations", "servicenodeportallocations")
        ),
        *(
            (
                file(provider("identity"), resources=["pods", name]),
                f'resources[0].resources[1]: Invalid value: "{name}": {why}',
            )
            for name, why in (
                (
                    "*.events.k8s.io",
                    "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' "
                    "instead in the config file",
                ),
                (
                    "events.events.k8s.io",
                    "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use "
                    "'events' instead in the config file",
                ),
                ("ingresses.extensions", "'extensions' group has been removed and cannot be used for encryption"),
                ("secrets.*", "encrypting the same resource across groups is not supported"),
            )
        ),
        (file(provider("identity"), resources=["secrets", "*.*"]), "using overlapping resources"),
        (file(provider("identity"), resources=["secrets", "secrets"]), "cannot be specified multiple times"),
    ],
)
def test_a_file_that_is_wrong_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(EncryptionError) as caught:
        load_encryption(content)
    assert said in str(caught.value)


_TWICE = "the same resource cannot be specified multiple times"
_MASKED = (
    "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be "
    "masked"
)


@pytest.mark.parametrize(
    ("resources", "texts"),
    [
        (["*.", "*.apps", "secrets.example.com"], []),
        (["*.", "*.*"], [_MASKED]),
        (["*.apps", "*.", "*.*"], [_MASKED]),
        (["deployments.apps", "*.apps", "jobs.batch"], [_MASKED]),
        (["secrets", "secrets.", "secrets"], [_TWICE]),
        (["*.", "*."], [_TWICE, _MASKED]),
    ],
)
def test_no_resource_is_named_twice_in_a_list(resources: list[str], texts: list[str]) -> None:
    content, found = file(provider("identity"), resources=resources), ""
    try:
        load_encryption(content)
    except EncryptionError as error:
        found = str(error)
    shown = json.dumps(resources, separators=(",", ":"))
    assert found.splitlines() == [f"resources[0].resources: Invalid value: {shown}: {text}" for text in texts]


@pytest.mark.parametrize(
    ("kind", "key", "said"),
    [
        ("aescbc", {}, ["name: Required value: name is a mandatory field for a key",
                        "secret: Required value: secret is a mandatory field for a key"]),
        ("aesgcm", {"name": "a", "secret": ""}, ["secret: Required value: secret is a mandatory field for a key"]),
        ("aesgcm", {"name": "a", "secret": "YQ"}, ['secret: Invalid value: "REDACTED": secrets must be base64 encoded']),
        ("aesgcm", {"secret": "=*="}, ["name: Required value: name is a mandatory field for a key",
                                       'secret: Invalid value: "REDACTED": secrets must be base64 encoded']),
        *(("aesgcm", {"name": "a", "secret": secret("a", size)},
           ['secret: Invalid value: "REDACTED": secret is not of the expected length, '
            f"got {size}, expected one of [16 24 32]"]) for size in (15, 17, 23, 25, 31, 33)),
        ("secretbox", {"name": "a", "secret": secret("a", 16)},
         ['secret: Invalid value: "REDACTED": secret is not of the expected length, got 16, expected one of [32]']),
        *(("aesgcm", {"name": "a", "secret": secret("a", size)}, []) for size in (16, 24, 32)),
        ("aesgcm", {"name": "a", "secret": f"{secret('a')[:20]}\n{secret('a')[20:]}\r\n"}, []),
    ],
)  # fmt: skip
def test_a_key_needs_a_name_and_a_secret(kind: str, key: dict[str, str], said: list[str]) -> None:
    """Upstream: ``validateKey``; Go's base64 skips line ends, which a block of YAML has."""
    found = ""
    try:
        load_encryption(file({kind: {"keys": [key]}}))
    except EncryptionError as error:
        found = str(error)
    assert found.splitlines() == [f"resources[0].providers[0].{kind}.keys[0].{each}" for each in said]
