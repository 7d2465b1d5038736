"""The review APIs, behind the filters that guard every request."""

from __future__ import annotations

from collections.abc import Awaitable
from types import SimpleNamespace
from typing import Any

import jwt
import pytest
from twisted.internet.defer import fail
from twisted.internet.defer import succeed as finished

from kapi.authentication.interface import Authenticated, AuthenticationError
from kapi.authentication.service_account.issuer import SigningError, TokenIssuer
from kapi.authorization.fixed import AlwaysAllow
from kapi.authorization.interface import Decision, Verdict
from kapi.endpoints.reviews.accessreviews import attributes_from
from kapi.endpoints.reviews.handlers import review_handlers
from kapi.endpoints.reviews.posted_review import ReviewServices
from kapi.machinery.feature_gates import resolve
from kapi.machinery.time import seconds_of
from kapi.request.user import UserInfo
from kapi.testing.memory_api import MemoryAPI, succeed
from tests.authorization.secured import ISSUER, SecuredAPI
from tests.rsa_keys import rsa_key

AUTHENTICATION, AUTHORIZATION = "/apis/authentication.k8s.io/v1", "/apis/authorization.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/x"


@pytest.fixture(scope="module")
def api() -> SecuredAPI:
    api = SecuredAPI()
    role = {"metadata": {"name": "r"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    subjects = [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}]
    assert api.ask_as("admin", "POST", f"{RBAC}/roles", role).code == 201
    binding = {"metadata": {"name": "b"}, "roleRef": ref, "subjects": subjects}
    assert api.ask_as("admin", "POST", f"{RBAC}/rolebindings", binding).code == 201
    assert (
        api.ask_as("admin", "POST", "/api/v1/namespaces/x/serviceaccounts", {"metadata": {"name": "app"}}).code == 201
    )
    return api


def review(api: SecuredAPI, token: str, plural: str, spec: dict[str, Any], **headers: str) -> Any:
    group = AUTHENTICATION if plural in ("tokenreviews", "selfsubjectreviews") else AUTHORIZATION
    answer = api.ask_as(token, "POST", f"{group}/{plural}", {"spec": spec} if spec else {}, **headers)
    assert answer.code == 201, answer.written
    return answer.json["status"]


def pods(verb: str, namespace: str = "x", **more: Any) -> dict[str, Any]:
    return {"resourceAttributes": {"verb": verb, "resource": "pods", "namespace": namespace, **more}}


@pytest.mark.parametrize(("verb", "namespace"), [("get", "x"), ("list", "x"), ("get", "y"), ("delete", "x")])
def test_a_review_says_what_a_request_meets(api: SecuredAPI, verb: str, namespace: str) -> None:
    allowed = review(api, "alice", "selfsubjectaccessreviews", pods(verb, namespace))["allowed"]
    name = "" if verb == "list" else "/none"
    method = "DELETE" if verb == "delete" else "GET"
    code = api.ask_as("alice", method, f"/api/v1/namespaces/{namespace}/pods{name}").code
    assert allowed == (code != 403)


def test_others_may_be_asked_about_only_by_those_who_may_ask(api: SecuredAPI) -> None:
    status = review(api, "admin", "subjectaccessreviews", {"user": "alice", **pods("get")})
    assert status == {"allowed": True, "reason": 'RBAC: allowed by RoleBinding "b/x" of Role "r" to User "alice"'}
    answer = api.ask_as(
        "alice", "POST", f"{AUTHORIZATION}/subjectaccessreviews", {"spec": {"user": "bob", **pods("get")}}
    )
    assert answer.code == 403


def requirement(operator: str, *values: str) -> dict[str, Any]:
    return {"key": "a", "operator": operator, "values": values}


PARTLY, IGNORED = "partially ignored due to parse error", "ignored due to parse error"


@pytest.mark.parametrize(
    ("kind", "selector", "told"),
    [
        ("fieldSelector", {"requirements": [requirement("In", "1", "2")]}, IGNORED),
        ("fieldSelector", {"requirements": [requirement("NotIn", "1"), requirement("Exists")]}, PARTLY),
        ("fieldSelector", {"requirements": [requirement("In", "1"), requirement("Like", "1")]}, PARTLY),
        ("fieldSelector", {"requirements": [requirement("In", "1")]}, ""),
        ("fieldSelector", {"rawSelector": "a"}, IGNORED),
        ("fieldSelector", {"rawSelector": "a=b,c!=d"}, ""),
        ("labelSelector", {"requirements": [requirement("In", "1"), requirement("Gt", "1")]}, PARTLY),
        ("labelSelector", {"requirements": [requirement("NotIn", "1"), requirement("Exists")]}, ""),
        ("labelSelector", {"requirements": [requirement("DoesNotExist")]}, ""),
        ("labelSelector", {"rawSelector": "a in"}, IGNORED),
    ],
)
def test_selectors_that_cannot_be_read_are_ignored_and_told(
    api: SecuredAPI, kind: str, selector: dict[str, Any], told: str
) -> None:
    status = review(api, "admin", "subjectaccessreviews", {"user": "alice", **pods("get", **{kind: selector})})
    assert status.get("evaluationError", "") == (told and f"spec.resourceAttributes.{kind} {told}")


@pytest.mark.parametrize(
    ("plural", "spec", "field"),
    [
        ("selfsubjectaccessreviews", {}, "spec.resourceAttributes"),
        ("selfsubjectaccessreviews", {"nonResourceAttributes": {}, **pods("get")}, "spec.nonResourceAttributes"),
        ("subjectaccessreviews", pods("get"), "spec.user"),
        (
            "selfsubjectaccessreviews",
            pods("get", labelSelector={}),
            "spec.resourceAttributes.labelSelector.requirements",
        ),
        (
            "selfsubjectaccessreviews",
            pods("get", labelSelector={"requirements": [{"key": "a", "operator": "In", "values": ["b", "c d"]}]}),
            "spec.resourceAttributes.labelSelector.requirements[0].values[1]",
        ),
    ],
)
def test_questions_that_make_no_sense(api: SecuredAPI, plural: str, spec: dict[str, Any], field: str) -> None:
    answer = api.ask_as("admin", "POST", f"{AUTHORIZATION}/{plural}", {"spec": spec})
    assert answer.code == 422
    assert answer.json["details"]["causes"][0]["field"] == field


def test_a_local_review_stays_in_its_namespace(api: SecuredAPI) -> None:
    uri = f"{AUTHORIZATION}/namespaces/x/localsubjectaccessreviews"
    assert api.ask_as("admin", "POST", uri, {"spec": {"user": "alice", **pods("get")}}).json["status"]["allowed"]
    foreign = api.ask_as("admin", "POST", uri, {"spec": {"user": "alice", **pods("get", "y")}})
    assert (foreign.code, foreign.json["details"]["causes"][0]["field"]) == (422, "spec.resourceAttributes.namespace")


def test_rules_of_a_namespace(api: SecuredAPI) -> None:
    status = review(api, "alice", "selfsubjectrulesreviews", {"namespace": "x"})
    assert {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]} in status["resourceRules"]
    assert status["incomplete"] is False
    assert api.ask_as("alice", "POST", f"{AUTHORIZATION}/selfsubjectrulesreviews", {}).code == 400


def test_who_am_i_also_when_impersonating(api: SecuredAPI) -> None:
    assert review(api, "alice", "selfsubjectreviews", {})["userInfo"] == {
        "username": "alice",
        "uid": "2",
        "groups": ["dev", "system:authenticated"],
    }
    other = review(api, "admin", "selfsubjectreviews", {}, Impersonate_User="jane")
    assert other["userInfo"] == {"username": "jane", "groups": ["system:authenticated"]}
    refused = api.ask_as("alice", "POST", f"{AUTHENTICATION}/selfsubjectreviews", {}, Impersonate_User="admin")
    assert refused.code == 403


def test_a_token_is_made_used_reviewed_and_dies(api: SecuredAPI) -> None:
    uri = "/api/v1/namespaces/x/serviceaccounts"
    api.ask_as("admin", "POST", uri, {"metadata": {"name": "short"}})
    made = api.ask_as("admin", "POST", f"{uri}/short/token", {"spec": {"expirationSeconds": 600}})
    assert (made.code, made.json["spec"]["expirationSeconds"]) == (201, 600)
    token = made.json["status"]["token"]
    info = review(api, token, "selfsubjectreviews", {})["userInfo"]
    assert info["username"] == "system:serviceaccount:x:short"
    status = review(api, "admin", "tokenreviews", {"token": token})
    assert status["authenticated"] and status["audiences"] == [ISSUER]
    assert api.ask_as("admin", "DELETE", f"{uri}/short").code == 200
    assert api.ask_as(token, "GET", "/api/v1/namespaces/x/pods").code == 401
    status = review(api, "admin", "tokenreviews", {"token": token})
    assert status == {"user": {}, "error": '[invalid bearer token, serviceaccounts "short" not found]'}


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"expirationSeconds": 599}, 422),
        ({"expirationSeconds": 2**32 + 1}, 422),
        ({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "none"}}, 404),
        ({"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "a"}}, 400),
        ({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1"}}, 400),
        ({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "a/b"}}, 400),
        ({"boundObjectRef": {"kind": "Pod", "apiVersion": "a/b/c", "name": "none"}}, 404),
        ({"boundObjectRef": {"kind": "Pod", "apiVersion": "apps/v1", "name": "none"}}, 400),
        ({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "of-another"}}, 400),
        ({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "of-app", "uid": "former"}}, 409),
    ],
)
def test_tokens_that_are_not_made(api: SecuredAPI, spec: dict[str, Any], code: int) -> None:
    for account in ("app", "another"):
        pod = {"serviceAccountName": account, "containers": [{"name": "c", "image": "i"}]}
        body = {"metadata": {"name": f"of-{account}"}, "spec": pod}
        assert api.ask_as("admin", "POST", "/api/v1/namespaces/x/pods", body).code in (201, 409)
    answer = api.ask_as("admin", "POST", "/api/v1/namespaces/x/serviceaccounts/app/token", {"spec": spec})
    assert answer.code == code


class Broken:
    """An issuer whose signer is out of order."""

    max_seconds = 0

    def issue(self, *arguments: Any, **named: Any) -> tuple[Awaitable[str], str]:
        return fail(SigningError("no key")), "id"


@pytest.mark.parametrize(("on", "code"), [(True, 409), (False, 201)])
def test_a_token_is_for_the_account_with_the_uid_that_is_named(api: SecuredAPI, on: bool, code: int) -> None:
    before = api.environment.features
    api.environment.features = resolve({"TokenRequestServiceAccountUIDValidation": on})
    try:
        body = {"metadata": {"uid": "another"}, "spec": {}}
        assert api.ask_as("admin", "POST", "/api/v1/namespaces/x/serviceaccounts/app/token", body).code == code
    finally:
        api.environment.features = before


def test_a_token_request_keeps_its_labels_and_annotations(api: SecuredAPI) -> None:
    given = {"labels": {"a": "b"}, "annotations": {"c": "d"}, "creationTimestamp": "2020-01-01T00:00:00Z"}
    answer = api.ask_as(
        "admin", "POST", "/api/v1/namespaces/x/serviceaccounts/app/token", {"metadata": given, "spec": {}}
    )
    metadata = answer.json["metadata"]
    assert (metadata["labels"], metadata["annotations"]) == (given["labels"], given["annotations"])
    assert (metadata["name"], metadata["namespace"]) == ("app", "x")
    assert metadata["creationTimestamp"] != given["creationTimestamp"]


@pytest.mark.parametrize(
    ("issuer", "code", "why"),
    [
        (None, 404, "the server could not find the requested resource"),
        (Broken(), 500, "Internal error occurred: failed to generate token: no key"),
    ],
)
def test_without_an_issuer_there_are_no_tokens(issuer: Any, code: int, why: str) -> None:
    api: MemoryAPI = succeed(MemoryAPI.started())
    api.table.handlers.update(review_handlers(ReviewServices(api.environment, AlwaysAllow(), issuer=issuer)))
    uri = "/api/v1/namespaces/x/serviceaccounts"
    assert api.ask("POST", uri, {"metadata": {"name": "a"}}).code == 201
    answer = api.ask("POST", f"{uri}/a/token", {"spec": {}})
    assert (answer.code, answer.json["message"]) == (code, why)


YEAR = 365 * 24 * 3600


@pytest.mark.parametrize(
    ("kind", "seconds", "audiences", "settings", "lifetime", "after"),
    [
        ("Pod", 3607, [], {}, YEAR, 3607),
        ("Pod", 3607, [ISSUER], {}, YEAR, 3607),
        ("Pod", 3606, [], {}, 3606, None),
        ("Pod", 3608, [], {}, 3608, None),
        ("Secret", 3607, [], {}, 3607, None),
        ("", 3607, [], {}, 3607, None),
        ("Pod", 3607, ["vault"], {}, 3607, None),
        ("Pod", 3607, [ISSUER, "vault"], {}, 3607, None),
        ("Pod", 3607, [], {"extend_tokens": False}, 3607, None),
        ("Pod", 3607, [], {"max_token_seconds": 3600}, 3600, None),
        ("Pod", 3600, [], {"max_token_seconds": 3600}, 3600, None),
        ("", 7200, [], {"max_token_seconds": 3600}, 3600, None),
    ],
)
def test_how_long_a_token_is_valid(
    kind: str, seconds: int, audiences: list[str], settings: dict[str, Any], lifetime: int, after: int | None
) -> None:
    """A kubelet asks for 3607 seconds for a pod: its token for the API server is valid for a year, and marked."""
    api: MemoryAPI = succeed(MemoryAPI.started())
    issuer = TokenIssuer(ISSUER, rsa_key("issuer"), api.clock.seconds)
    services = ReviewServices(
        api.environment,
        AlwaysAllow(),
        issuer=issuer,
        api_audiences=(ISSUER,),
        listers=api.environment.listers,
        **settings,
    )
    api.table.handlers.update(review_handlers(services))
    place = "/api/v1/namespaces/x"
    pod = {"serviceAccountName": "a", "containers": [{"name": "c", "image": "i"}]}
    for plural, body in (("serviceaccounts", {}), ("pods", {"spec": pod}), ("secrets", {})):
        assert api.ask("POST", f"{place}/{plural}", {"metadata": {"name": "a"}, **body}).code == 201
    spec: dict[str, Any] = {"audiences": audiences, "expirationSeconds": seconds}
    if kind:
        spec["boundObjectRef"] = {"kind": kind, "apiVersion": "v1", "name": "a"}
    answer = api.ask("POST", f"{place}/serviceaccounts/a/token", {"spec": spec})
    claims = jwt.decode(answer.json["status"]["token"], options={"verify_signature": False})
    assert (claims["exp"] - claims["iat"], claims["kubernetes.io"].get("warnafter")) == (
        lifetime, after if after is None else claims["iat"] + after,
    )  # fmt: skip
    shortened = [f'299 - "requested expiration of {seconds} seconds shortened to {lifetime} seconds"'] * (
        lifetime < seconds
    )
    assert answer.warnings == shortened
    told = answer.json["status"]["expirationTimestamp"]
    assert seconds_of(told) == claims["iat"] + min(seconds, lifetime)
    assert claims["aud"] == (audiences or [ISSUER])


def test_nobody_makes_tokens_without_the_right_to(api: SecuredAPI) -> None:
    answer = api.ask_as("alice", "POST", "/api/v1/namespaces/x/serviceaccounts/app/token", {"spec": {}})
    assert answer.code == 403


@pytest.mark.parametrize("token", [" admin", " ", "   ", "\n", " \tadmin"])
def test_a_token_that_makes_no_header_is_no_credential(api: SecuredAPI, token: str) -> None:
    for audiences in ([], ["a"]):
        answer = api.ask_as(
            "admin", "POST", f"{AUTHENTICATION}/tokenreviews", {"spec": {"token": token, "audiences": audiences}}
        )
        assert answer.json["status"] == {
            "authenticated": True,
            "user": {"username": "system:anonymous", "groups": ["system:unauthenticated"]},
            "audiences": audiences or [ISSUER],
        }


@pytest.mark.parametrize(
    ("token", "valid"),
    [
        ("admin", True),
        ("admin x", True),
        ("admin ", True),
        ("admin\n", True),
        ("\tadmin", False),
        ("ad min", False),
        ("é", False),
    ],
)
def test_a_reviewed_token_is_what_a_header_would_have(api: SecuredAPI, token: str, valid: bool) -> None:
    found = api.ask_as("admin", "POST", f"{AUTHENTICATION}/tokenreviews", {"spec": {"token": token}}).json["status"]
    assert found.get("authenticated", False) is valid
    assert found.get("error") == (None if valid else "invalid bearer token")


class Tokens:
    """Knows one token, for the audiences that are asked for; "later" is answered later."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def authenticate_token(self, token: str, audiences: tuple[str, ...]) -> Any:
        self.asked.append(audiences)
        if token == "broken":
            raise AuthenticationError("why", "and why else")
        found = Authenticated(UserInfo("u", groups=("g",)), audiences) if token in ("known", "later") else None
        return finished(found) if token == "later" else found


USER = {"username": "u", "groups": ["g", "system:authenticated"]}
FORMER = {"error": "e", "audiences": ["former"], "user": {"username": "f"}, "authenticated": True}


@pytest.mark.parametrize(
    ("token", "audiences", "before", "status"),
    [
        ("known", [], {}, {"authenticated": True, "user": USER}),
        ("known", ["a"], {}, {"authenticated": True, "user": USER, "audiences": ["a"]}),
        ("later", ["a", "b"], {}, {"authenticated": True, "user": USER, "audiences": ["a", "b"]}),
        ("known", [], FORMER, {"authenticated": True, "user": USER, "error": "e"}),
        ("unknown", ["a"], {}, {"user": {}, "error": "invalid bearer token"}),
        ("unknown", [], FORMER, {"user": {"username": "f"}, "audiences": ["former"], "error": "invalid bearer token"}),
        ("broken", [], {}, {"user": {}, "error": "[invalid bearer token, why, and why else]"}),
    ],
)  # fmt: skip
def test_what_a_token_review_says(token: str, audiences: list[str], before: Any, status: Any) -> None:
    api: MemoryAPI = succeed(MemoryAPI.started())
    tokens = Tokens()
    services = ReviewServices(api.environment, AlwaysAllow(), tokens=tokens)  # type: ignore[arg-type]
    api.table.handlers.update(review_handlers(services))
    body = {"spec": {"token": token, "audiences": audiences}, "status": before}
    answer = api.ask("POST", f"{AUTHENTICATION}/tokenreviews", body).json
    assert (answer["status"], answer["spec"]["token"], tokens.asked) == (status, token, [tuple(audiences)])


@pytest.mark.parametrize(("before", "status"), [({}, {"user": {}}), (FORMER, {**FORMER, "authenticated": None})])
def test_without_authenticators_no_token_is_one(before: Any, status: Any) -> None:
    api: MemoryAPI = succeed(MemoryAPI.started())
    api.table.handlers.update(review_handlers(ReviewServices(api.environment, AlwaysAllow())))
    answer = api.ask("POST", f"{AUTHENTICATION}/tokenreviews", {"spec": {"token": "t"}, "status": before}).json
    assert answer["status"] == {key: value for key, value in status.items() if value is not None}
    refused = api.ask("POST", f"{AUTHENTICATION}/tokenreviews", {"spec": {}})
    assert (refused.code, refused.json["message"]) == (400, "token is required for TokenReview in authentication")


@pytest.mark.parametrize(
    ("verdict", "status"),
    [
        (Verdict(Decision.ALLOW), {"allowed": True}), (Verdict(Decision.NO_OPINION), {"allowed": False}),
        (Verdict(Decision.DENY), {"allowed": False, "denied": True}),
        (Verdict(Decision.DENY, "r"), {"allowed": False, "denied": True, "reason": "r"}),
        (Verdict(Decision.ALLOW, "r"), {"allowed": True, "reason": "r"}),
    ],
)  # fmt: skip
def test_what_an_access_review_says(verdict: Verdict, status: Any) -> None:
    api: MemoryAPI = succeed(MemoryAPI.started())
    authorizer = SimpleNamespace(authorize=lambda attributes: verdict)
    api.table.handlers.update(review_handlers(ReviewServices(api.environment, authorizer)))  # type: ignore[arg-type]
    answer = api.ask("POST", f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": pods("get")}).json
    assert answer["status"] == status


def test_reviews_are_only_created(api: SecuredAPI) -> None:
    assert api.ask_as("admin", "GET", f"{AUTHENTICATION}/tokenreviews").code == 405
    assert api.ask_as("admin", "GET", f"{AUTHENTICATION}/tokenreviews/x").code == 404
    assert api.ask_as("admin", "POST", f"{AUTHORIZATION}/localsubjectaccessreviews", {"spec": {}}).code == 404


def test_anonymous_sees_the_version_and_nothing_else(api: SecuredAPI) -> None:
    assert api.ask_as("", "GET", "/api/v1/namespaces/x/pods").code == 403
    assert api.ask_as("wrong", "GET", "/version").code == 401


def test_escalation_through_the_api(api: SecuredAPI) -> None:
    """Whoever may write roles still cannot write himself a stronger one, nor bind it."""
    writer = {"verbs": ["*"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings"]}
    api.ask_as("admin", "POST", f"{RBAC}/roles", {"metadata": {"name": "w"}, "rules": [writer]})
    bob = [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "bob"}]
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "w"}
    api.ask_as("admin", "POST", f"{RBAC}/rolebindings", {"metadata": {"name": "w"}, "roleRef": ref, "subjects": bob})
    strong = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    grab = {"metadata": {"name": "grab"}, "roleRef": strong, "subjects": bob}
    answer = api.ask_as("bob", "POST", f"{RBAC}/rolebindings", grab)
    assert answer.code == 403 and "not currently held" in answer.json["message"]
    assert api.ask_as("admin", "GET", f"{RBAC}/rolebindings/grab").code == 404
    assert api.ask_as("bob", "GET", "/api/v1/namespaces/x/secrets").code == 403


def test_a_stronger_role_is_refused_before_its_version_is_looked_at(api: SecuredAPI) -> None:
    """Nobody learns from a conflict what became of an object that he may not write."""
    writer = {"verbs": ["create", "update"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"]}
    api.ask_as("admin", "POST", f"{RBAC}/roles", {"metadata": {"name": "rw"}, "rules": [writer]})
    bob = [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "bob"}]
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "rw"}
    api.ask_as("admin", "POST", f"{RBAC}/rolebindings", {"metadata": {"name": "rw"}, "roleRef": ref, "subjects": bob})
    rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}
    stored = api.ask_as("admin", "POST", f"{RBAC}/roles", {"metadata": {"name": "s"}, "rules": [rule]}).json
    stale = {**stored, "metadata": {**stored["metadata"], "resourceVersion": "1"}}
    assert api.ask_as("admin", "PUT", f"{RBAC}/roles/s", stale).code == 409
    assert api.ask_as("bob", "PUT", f"{RBAC}/roles/s", stale).code == 403
    assert api.ask_as("bob", "PUT", f"{RBAC}/roles/s", stored).code == 200, "nothing changes"
    fresh = {"metadata": {"name": "put"}, "rules": [rule]}
    assert api.ask_as("bob", "PUT", f"{RBAC}/roles/put", fresh).code == 403


def test_paths_and_users_that_are_no_utf8_are_answered(api: SecuredAPI) -> None:
    answer = api.ask_as("alice", "GET", "/api/v1/namespaces/%ff/pods/%fe")
    assert answer.code == 403 and "\ufffd" in answer.json["message"]


def test_requirements_reach_the_authorizer_as_they_were_sent_and_raw_ones_by_key() -> None:
    def attributes(**selectors: Any) -> Any:
        resource = {"resource": "pods", "verb": "list", **selectors}
        return attributes_from({"resourceAttributes": resource}, UserInfo("alice"))

    def requirements(**selector: Any) -> Any:
        return attributes(labelSelector=selector).label_requirements

    named = [{"key": "z", "operator": "In", "values": ["b", "a"]}, {"key": "c", "operator": "Exists"}]
    assert requirements(requirements=named) == (("z", "in", ("b", "a")), ("c", "exists", ()))
    assert requirements(rawSelector="z in (b,a),c") == (("c", "exists", ()), ("z", "in", ("a", "b")))
    two = [requirement("In", "1"), requirement("Exists"), requirement("NotIn", "2")]
    assert attributes(fieldSelector={"requirements": two}).field_requirements == (("a", "=", "1"), ("a", "!=", "2"))
