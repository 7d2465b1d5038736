"""ServiceAccount tokens: made, verified, and dead with what they are bound to."""

from __future__ import annotations

import base64
import re
import time
from typing import Any

import jwt
import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from kapi.authentication.interface import NO_NOTES, Authenticated, AuthenticationError, Notes
from kapi.authentication.service_account.authenticator import (
    ACCOUNTS,
    NODES,
    PODS,
    SECRETS,
    BoundTokenAuthenticator,
    LegacyTokenAuthenticator,
)
from kapi.authentication.service_account.issuer import TokenIssuer
from kapi.authentication.service_account.keys import (
    KeySet,
    VerificationKey,
    load_signing_key,
    load_verification_keys,
)
from kapi.authentication.service_account.names import split_username
from kapi.endpoints.issuer_discovery import CONFIGURATION_PATH, JWKS_PATH, IssuerDiscovery
from kapi.machinery.status import MethodNotAllowed, NotAcceptable
from kapi.machinery.time import stamp
from kapi.request.user import UserInfo
from tests.filters.requests import request
from tests.rsa_keys import rsa_key

OLD_KEY = ec.generate_private_key(ec.SECP256R1())
ISSUER = "https://kubernetes.default.svc"


def thing(name: str, uid: str, namespace: str = "x", **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": uid, **({"namespace": namespace} if namespace else {})}, **more}


class Store(dict[tuple[str, str], dict[str, Any]]):
    """A lister over a dict of (namespace, name)."""

    def put(self, obj: dict[str, Any]) -> dict[str, Any]:
        metadata = obj["metadata"]
        self[(metadata.get("namespace", ""), metadata["name"])] = obj
        return obj

    def get(self, namespace: str, name: str) -> dict[str, Any] | None:  # type: ignore[override]
        return super().get((namespace, name))


class World:
    def __init__(self) -> None:
        self.now = time.time()
        self.stores = {resource: Store() for resource in (ACCOUNTS, SECRETS, PODS, NODES)}
        self.account = self.stores[ACCOUNTS].put(thing("app", "a1"))
        self.pod = self.stores[PODS].put(thing("p", "p1"))
        self.secret = self.stores[SECRETS].put(thing("s", "s1"))
        self.node = self.stores[NODES].put(thing("n", "n1", ""))
        self.issuer = TokenIssuer(ISSUER, rsa_key("issuer"), lambda: self.now)
        keys = KeySet([self.issuer.verification_key, VerificationKey.of(OLD_KEY.public_key())])
        self.tokens = BoundTokenAuthenticator([ISSUER, "https://old"], keys, self.stores, (ISSUER,), lambda: self.now)
        self.legacy = LegacyTokenAuthenticator(keys, self.stores, (ISSUER,), clock=lambda: self.now)

    def issue(self, *audiences: str, seconds: int = 3600, **bound: Any) -> str:
        return self.issuer.issue(self.account, audiences or (ISSUER,), seconds, **bound)[0]

    def signed(self, claims: dict[str, Any]) -> str:
        """A token with these claims, as another server would sign it with the same key."""
        headers = {"kid": self.issuer.verification_key.key_id}
        return jwt.encode(claims, rsa_key("issuer"), algorithm="RS256", headers=headers)

    def user(self, token: str, *audiences: str) -> Authenticated:
        answer = self.tokens.authenticate_token(token, audiences)
        assert answer is not None
        return answer

    def refused(self, token: str, *audiences: str) -> str:
        with pytest.raises(AuthenticationError) as caught:
            self.tokens.authenticate_token(token, audiences)
        return str(caught.value)


@pytest.fixture
def world() -> World:
    return World()


def test_the_identity(world: World) -> None:
    user = world.user(world.issue()).user
    assert (user.name, user.uid) == ("system:serviceaccount:x:app", "a1")
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:x")
    assert list(user.extra) == ["authentication.kubernetes.io/credential-id"]


def test_bound_objects_are_told(world: World) -> None:
    extra = world.user(world.issue(pod=world.pod, node=world.node)).user.extra
    prefix = "authentication.kubernetes.io/"
    assert {key.removeprefix(prefix): value[0] for key, value in extra.items() if "credential" not in key} == {
        "pod-name": "p",
        "pod-uid": "p1",
        "node-name": "n",
        "node-uid": "n1",
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"exp": "1"}, {"exp": True}, {"exp": 1e300}, {"nbf": "x"}, {"iat": []}, {"sub": 5}, {"aud": 5}, {"aud": {}}, {"jti": 5},
        {"kubernetes.io": "x"}, {"namespace": 5}, {"serviceaccount": "app"}, {"serviceaccount": {"name": []}},
        {"pod": "p"}, {"pod": ["p"]}, {"pod": {"name": {}}}, {"node": "n"}, {"secret": 5}, {"warnafter": "x"},
    ],
)  # fmt: skip
def test_claims_have_their_types(world: World, wrong: dict[str, Any]) -> None:
    """Of a token that another server signs with the same key: as upstream, it is refused; an ``exp`` in quotes is none."""
    claims = jwt.decode(world.issue(), options={"verify_signature": False})
    public = {"kubernetes.io", "exp", "nbf", "iat", "sub", "aud", "jti"}
    (claims if public & set(wrong) else claims["kubernetes.io"]).update(wrong)
    assert "json: cannot unmarshal" in world.refused(world.signed(claims))


def test_a_token_bound_to_nothing_that_has_a_name_is_refused(world: World) -> None:
    claims = jwt.decode(world.issue(), options={"verify_signature": False})
    claims["kubernetes.io"]["pod"] = {}
    assert "invalidated" in world.refused(world.signed(claims))


@pytest.mark.parametrize(("kind", "resource"), [("pod", PODS), ("secret", SECRETS), ("node", NODES)])
def test_a_token_dies_with_what_it_is_bound_to(world: World, kind: str, resource: Any) -> None:
    obj = getattr(world, kind)
    token = world.issue(**{kind: obj})
    world.user(token)
    metadata = obj["metadata"]
    world.stores[resource].put({"metadata": {**metadata, "uid": "another"}})
    assert "does not match" in world.refused(token)
    world.stores[resource].put({"metadata": {**metadata, "deletionTimestamp": "2020-01-01T00:00:00Z"}})
    assert world.refused(token) == "service account token has been invalidated"
    world.stores[resource].clear()
    assert world.refused(token) == "service account token has been invalidated"


def test_clocks_may_differ_by_a_minute_about_a_deletion(world: World) -> None:
    world.now = float(int(world.now))
    token = world.issue(pod=world.pod)
    for before, alive in ((60, True), (61, False)):
        metadata = {**world.pod["metadata"], "deletionTimestamp": stamp(world.now - before)}
        world.stores[PODS].put({"metadata": metadata})
        if alive:
            world.user(token)
        else:
            assert world.refused(token) == "service account token has been invalidated"


def test_a_token_dies_with_its_account_and_does_not_come_back_with_a_new_one(world: World) -> None:
    token = world.issue()
    world.stores[ACCOUNTS].clear()
    assert world.refused(token) == 'serviceaccounts "app" not found'
    world.stores[ACCOUNTS].put(thing("app", "a2"))
    assert world.refused(token) == "service account UID (a2) does not match claim (a1)"


def test_times_with_a_minute_of_leeway(world: World) -> None:
    token = world.issue(seconds=600)
    world.now += 659
    world.user(token)
    world.now += 10
    assert world.refused(token) == "service account token has expired"
    world.now -= 2000
    assert world.refused(token) == "service account token is not valid yet"


@pytest.mark.parametrize(
    ("claim", "seconds", "why"),
    [
        ("exp", -60, ""), ("exp", -61, "has expired"), ("nbf", 60, ""), ("nbf", 61, "is not valid yet"), ("iat", 60, ""),
        ("iat", 61, "is issued in the future"), ("exp", None, ""), ("nbf", None, ""), ("iat", None, ""),
    ],
)  # fmt: skip
def test_clocks_may_differ_by_a_minute(world: World, claim: str, seconds: int | None, why: str) -> None:
    world.now = float(int(world.now))
    claims = {**claims_of(world.issue()), claim: None if seconds is None else int(world.now) + seconds}
    token = world.signed({name: value for name, value in claims.items() if value is not None})
    if why:
        assert world.refused(token) == f"service account token {why}"
    else:
        assert world.user(token).expires == float(claims["exp"] or 0)


def test_a_token_of_another_account_of_the_name_or_of_one_that_is_deleted(world: World) -> None:
    world.now = float(int(world.now))
    token = world.issue()
    for before, alive in ((60, True), (61, False)):
        world.account["metadata"]["deletionTimestamp"] = stamp(world.now - before)
        if alive:
            world.user(token)
        else:
            assert world.refused(token) == "service account x/app has been deleted"


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("secret", "secret UID (s2) does not match service account secret ref claim (s1)"),
        ("pod", "pod UID (p2) does not match service account pod ref claim (p1)"),
        ("node", "node UID (n2) does not match service account node ref claim (n1)"),
    ],
)
def test_a_token_of_another_object_of_the_name(world: World, kind: str, why: str) -> None:
    token = world.issue(**{kind: getattr(world, kind)})
    getattr(world, kind)["metadata"]["uid"] = f"{kind[0]}2"
    assert world.refused(token) == why


def test_the_node_of_a_pod_need_not_exist(world: World) -> None:
    token = world.issue(pod=world.pod, node=world.node)
    world.stores[NODES].clear()
    assert world.user(token).user.extra["authentication.kubernetes.io/node-uid"] == ("n1",)
    claims = claims_of(token)
    del claims["kubernetes.io"]["node"]["uid"]
    assert "authentication.kubernetes.io/node-uid" not in world.user(world.signed(claims)).user.extra


@pytest.mark.parametrize("claims", [{}, {"kubernetes.io": {}}, {"kubernetes.io": {"namespace": "x"}}])
def test_a_token_of_no_account(world: World, claims: dict[str, Any]) -> None:
    assert world.refused(world.signed({"iss": ISSUER, "aud": ISSUER, **claims})) == 'serviceaccounts "" not found'


def test_audiences(world: World) -> None:
    token = world.issue("vault", ISSUER)
    assert world.user(token).audiences == (ISSUER,)
    assert world.user(token, "x", "vault").audiences == ("vault",)
    assert world.refused(world.issue("vault")) == (
        f'token audiences ["vault"] is invalid for the target audiences ["{ISSUER}"]'
    )


def test_several_issuers_and_keys(world: World) -> None:
    old = TokenIssuer("https://old", OLD_KEY, lambda: world.now)
    world.user(old.issue(world.account, [ISSUER], 600)[0])
    assert (
        world.tokens.authenticate_token(
            TokenIssuer("https://new", rsa_key("issuer")).issue(world.account, [ISSUER], 600)[0]
        )
        is None
    )


def claims_of(token: str) -> dict[str, Any]:
    return jwt.decode(token, options={"verify_signature": False})


def test_forgeries(world: World) -> None:
    stranger = rsa_key("stranger")
    forged = jwt.encode(claims_of(world.issue()), stranger, algorithm="RS256")
    assert "cryptographic" in world.refused(forged)
    named = jwt.encode(claims_of(world.issue()), stranger, algorithm="RS256", headers={"kid": "unknown"})
    assert "no keys found" in world.refused(named)
    head, body, signature = world.issue().split(".")
    other = world.issuer.issue(thing("root", "r"), [ISSUER], 600)[0].split(".")[1]
    assert "cryptographic" in world.refused(f"{head}.{other}.{signature}")
    unsigned = jwt.encode(claims_of(world.issue()), "", algorithm="none")
    assert "cryptographic" in world.refused(unsigned)


def test_a_public_key_is_no_shared_secret(world: World) -> None:
    """The classic confusion: an HMAC over the token, keyed by the public key's PEM."""
    import hashlib
    import hmac

    pem = rsa_key("issuer").public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').rstrip(b"=")
    body = world.issue().split(".")[1].encode()
    mac = base64.urlsafe_b64encode(hmac.digest(pem, head + b"." + body, hashlib.sha256)).rstrip(b"=")
    assert "cryptographic" in world.refused(b".".join([head, body, mac]).decode())


@pytest.mark.parametrize("issuer", [[], {}, ["a"], 1, None, True])
def test_an_issuer_that_is_no_text_is_no_opinion(world: World, issuer: object) -> None:
    body = base64.urlsafe_b64encode(orjson.dumps({"iss": issuer})).rstrip(b"=").decode()
    assert world.tokens.authenticate_token(f"e30.{body}.e30") is None


@pytest.mark.parametrize("token", ["", "a", "a.b.c", "e30.e30.e30", "{}", "." * 10, "x" * 100_000])
def test_what_is_no_token_is_no_opinion(world: World, token: str) -> None:
    assert world.tokens.authenticate_token(token) is None


def legacy_claims(**more: Any) -> dict[str, Any]:
    prefix = "kubernetes.io/serviceaccount/"
    return {
        "iss": "kubernetes/serviceaccount",
        "sub": "system:serviceaccount:x:app",
        f"{prefix}namespace": "x",
        f"{prefix}secret.name": "s",
        f"{prefix}service-account.name": "app",
        f"{prefix}service-account.uid": "a1",
        **more,
    }


def test_legacy_tokens_live_as_long_as_their_secret(world: World) -> None:
    token = jwt.encode(legacy_claims(), rsa_key("issuer"), algorithm="RS256")
    with pytest.raises(AuthenticationError, match="does not match server's copy"):
        world.legacy.authenticate_token(token)
    world.secret["data"] = {"token": base64.b64encode(token.encode()).decode()}
    used: list[Any] = []
    world.legacy.mark_used = used.append
    answer = world.legacy.authenticate_token(token)
    assert answer is not None and answer.user.name == "system:serviceaccount:x:app" and used == [world.secret]
    world.secret["metadata"]["labels"] = {"kubernetes.io/legacy-token-invalid-since": "2024-01-01"}
    with pytest.raises(AuthenticationError, match="marked invalid"):
        world.legacy.authenticate_token(token)
    world.stores[SECRETS].clear()
    with pytest.raises(AuthenticationError, match="Token has been invalidated"):
        world.legacy.authenticate_token(token)


_OWN = "kubernetes.io/serviceaccount/"


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"sub": "system:serviceaccount:kube-system:root"}, "sub claim is invalid"),
        ({"sub": "system:serviceaccount:y:app"}, "sub claim is invalid"), ({"sub": "app"}, "sub claim is invalid"),
        ({"sub": ""}, "sub claim is missing"),
        *(
            ({f"{_OWN}{claim}": value}, f"{text} claim is missing")
            for value in ("", 5)
            for claim, text in (
                ("namespace", "namespace"), ("secret.name", "secretName"), ("service-account.name", "serviceAccountName"),
                ("service-account.uid", "serviceAccountUID"),
            )
        ),
        ({f"{_OWN}secret.name": "none"}, "Token has been invalidated"),
        ({f"{_OWN}service-account.name": "none", "sub": "system:serviceaccount:x:none"}, 'serviceaccounts "none" not found'),
        ({f"{_OWN}service-account.uid": "a2"}, "ServiceAccount UID (a1) does not match claim (a2)"),
    ],
)  # fmt: skip
def test_a_legacy_token_whose_claims_are_not_of_its_account(world: World, claims: dict[str, Any], why: str) -> None:
    token = jwt.encode(legacy_claims(**claims), rsa_key("issuer"), algorithm="RS256")
    world.secret["data"] = {"token": base64.b64encode(token.encode()).decode()}
    with pytest.raises(AuthenticationError) as caught:
        world.legacy.authenticate_token(token)
    assert str(caught.value) == why


@pytest.mark.parametrize(
    ("kind", "why"), [("secret", "Token has been invalidated"), ("account", "ServiceAccount x/app has been deleted")]
)
def test_a_legacy_token_dies_with_the_request_to_delete(world: World, kind: str, why: str) -> None:
    token = jwt.encode(legacy_claims(), rsa_key("issuer"), algorithm="RS256")
    world.secret["data"] = {"token": base64.b64encode(token.encode()).decode()}
    getattr(world, kind)["metadata"]["deletionTimestamp"] = stamp(world.now)
    with pytest.raises(AuthenticationError) as caught:
        world.legacy.authenticate_token(token)
    assert str(caught.value) == why


def test_a_legacy_token_is_believed_where_nothing_is_looked_up(world: World) -> None:
    world.legacy.lookup = False
    for resource in (SECRETS, ACCOUNTS):
        world.stores[resource].clear()
    answer = world.legacy.authenticate_token(jwt.encode(legacy_claims(), rsa_key("issuer"), algorithm="RS256"))
    assert answer is not None
    groups = ("system:serviceaccounts", "system:serviceaccounts:x")
    assert answer.user == UserInfo("system:serviceaccount:x:app", uid="a1", groups=groups)
    assert (answer.audiences, answer.expires) == ((ISSUER,), 0.0)


def test_the_year_of_the_kubelets_tokens_is_marked(world: World) -> None:
    claims = claims_of(world.issue(seconds=365 * 24 * 3600, pod=world.pod, warn_after=3607))
    assert claims["kubernetes.io"]["warnafter"] == claims["iat"] + 3607
    assert "warnafter" not in claims_of(world.issue(seconds=3600, pod=world.pod))["kubernetes.io"]


def test_the_use_of_a_token_beyond_what_was_asked_for_is_told(world: World) -> None:
    token = world.issue(seconds=365 * 24 * 3600, pod=world.pod, warn_after=3607)
    assert world.user(token).notes == NO_NOTES
    world.now += 3607 + 5
    assert world.user(token).notes.annotations == (
        (
            "authentication.k8s.io/stale-token",
            "subject: system:serviceaccount:x:app, seconds after warning threshold: 5",
        ),
    )
    meter = world.tokens.meter
    assert (meter.valid.rows, meter.stale.rows, meter.legacy.rows) == ({(): 1}, {(): 1}, {(): 0})


def test_the_use_of_legacy_tokens_is_told(world: World) -> None:
    token = jwt.encode(legacy_claims(), rsa_key("issuer"), algorithm="RS256")
    world.secret["data"] = {"token": base64.b64encode(token.encode()).decode()}
    prefix = "authentication.k8s.io/legacy-token"

    def notes() -> Notes:
        answer = world.legacy.authenticate_token(token)
        assert answer is not None
        return answer.notes

    subject = (prefix, "system:serviceaccount:x:app")
    assert notes() == Notes((subject, (f"{prefix}-manual-secret", "s")))
    world.account["secrets"] = [{"name": "s"}]
    automatic = notes()
    assert automatic.annotations == (subject, (f"{prefix}-autogenerated-secret", "s"))
    assert automatic.warnings[0].startswith("Use tokens from the TokenRequest API")
    world.secret["metadata"]["labels"] = {"kubernetes.io/legacy-token-invalid-since": "2024-01-01"}
    with pytest.raises(AuthenticationError) as caught:
        world.legacy.authenticate_token(token)
    assert caught.value.notes.annotations == ((f"{prefix}-invalidated", "s/x"),)
    meter = world.legacy.meter
    assert [each.rows[()] for each in (meter.legacy, meter.manual, meter.automatic, meter.invalid)] == [2, 1, 1, 1]


@pytest.mark.parametrize(("realm", "path"), [("", "/"), ("a", "/realms/a")])
def test_tokens_of_another_realm_have_another_issuer(realm: str, path: str) -> None:
    issuer = TokenIssuer("https://issuer/", rsa_key("issuer"), lambda: 1.0)
    assert issuer.of_realm(realm, lambda: 2.0).issuer == f"https://issuer{path}"
    assert issuer.issuer == "https://issuer/"


def test_keys_from_files() -> None:
    private = rsa_key("issuer").private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    public = OLD_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    keys = load_verification_keys(private + public)
    assert [key.jwk()["kty"] for key in keys] == ["RSA", "EC"]
    assert load_signing_key(private).key_size == 2048
    with pytest.raises(ValueError, match="public keys"):
        load_verification_keys(b"nothing")
    with pytest.raises(ValueError, match="private key"):
        load_signing_key(public)


def test_a_key_of_our_own_is_tried_out_and_not_tested_for_primes() -> None:
    whole = rsa_key("issuer").private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    modulus = rsa_key("issuer").public_key().public_numbers().n.to_bytes(256, "big")
    damaged = whole.replace(modulus, modulus[:100] + bytes([modulus[100] ^ 4]) + modulus[101:])

    def pem(content: bytes) -> bytes:
        return b"-----BEGIN PRIVATE KEY-----\n" + base64.encodebytes(content) + b"-----END PRIVATE KEY-----\n"

    key = load_signing_key(pem(whole), made_here=True)
    assert isinstance(key, rsa.RSAPrivateKey) and key.private_numbers() == rsa_key("issuer").private_numbers()
    for made_here in (True, False):
        with pytest.raises(ValueError):
            load_signing_key(pem(damaged), made_here=made_here)


@pytest.mark.parametrize(
    "text", ["system:serviceaccount:x", "system:serviceaccount:X:a", "system:serviceaccount:a:b:c", "x"]
)
def test_what_is_no_account(text: str) -> None:
    assert split_username(text) is None


@pytest.mark.parametrize("foreign", ["!", "\n", "+", "/", "="])
def test_a_token_with_a_character_that_is_none_of_a_token_is_no_opinion(world: World, foreign: str) -> None:
    token = world.issue()
    for place in (1, token.index(".") + 1):
        assert world.tokens.authenticate_token(token[:place] + foreign + token[place:]) is None


def test_the_memory_of_verified_tokens_is_bounded(world: World) -> None:
    """CVE-2020-8552: no cache grows with what clients send."""
    from kapi.authentication.service_account import signed

    known = world.tokens.signed._verified_claims
    for number in range(signed._CACHE_SIZE):
        known[number.to_bytes(4, "big")] = {}
    world.user(world.issue())
    assert len(known) <= signed._CACHE_SIZE


def test_the_user_of_a_token_is_made_once(world: World) -> None:
    """Each request has a token; what is made of it is shared by all of them, while others come in between."""
    one, other = (world.issue(audience) for audience in (ISSUER, "https://old"))
    users = [world.user(token, ISSUER, "https://old").user for token in (one, other, one, other)]
    assert users[0] is users[2] and users[1] is users[3] and users[0] is not users[1]


@pytest.mark.parametrize(
    ("uri", "cluster", "keys"),
    [
        ("", "", "https://host:6443/openid/v1/jwks"),
        ("", "team", "https://host:6443/clusters/team/openid/v1/jwks"),
        ("https://elsewhere/keys", "", "https://elsewhere/keys"),
        ("https://elsewhere/keys", "team", "https://elsewhere/keys"),
    ],
)
def test_who_verifies_tokens_elsewhere_finds_the_keys(uri: str, cluster: str, keys: str) -> None:
    issuer = TokenIssuer(ISSUER, rsa_key("issuer"))
    ctx = request(CONFIGURATION_PATH)
    ctx.cluster = cluster
    answer = IssuerDiscovery(ISSUER, uri, "host:6443", KeySet([issuer.verification_key])).configuration(ctx)
    document = orjson.loads(answer.body)  # type: ignore[arg-type]
    assert (document["issuer"], document["jwks_uri"]) == (ISSUER, keys)
    assert document["id_token_signing_alg_values_supported"] == ["RS256"]


@pytest.mark.parametrize(
    ("issuer", "uri", "why"),
    [
        ("http://a", "", "issuer URL must use https scheme, got: http://a"),
        ("https://a?b", "", "issuer URL may not include a query or a fragment, got: https://a?b"),
        ("https://a#b", "", "issuer URL may not include a query or a fragment, got: https://a#b"),
        ("https://a", "http://b", "jwksURI requires https scheme, parsed as: http://b"),
    ],
)
def test_an_issuer_that_others_could_not_verify_is_not_described(issuer: str, uri: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        IssuerDiscovery(issuer, uri, "host", KeySet([]))


def test_the_documents_of_an_issuer_are_only_read_and_only_as_json() -> None:
    documents = IssuerDiscovery(ISSUER, "", "host", KeySet([]))
    with pytest.raises(MethodNotAllowed):
        documents.jwks(request(JWKS_PATH, "POST"))
    with pytest.raises(NotAcceptable, match="Available representations: application/jwk-set\\+json$"):
        documents.jwks(request(JWKS_PATH, headers={"accept": "text/html"}))
