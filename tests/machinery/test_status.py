"""The Status of each error of the API, as a client gets it."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery import status
from kapi.machinery.field import Path, invalid, required
from kapi.machinery.gvk import GroupKind, GroupResource
from kapi.machinery.status import StatusError, unstructured_text, without_status

PODS, JOBS = GroupResource("", "pods"), GroupResource("batch", "jobs")
NAMED = {"name": "x", "group": "batch", "kind": "jobs"}
AGAIN = {"retryAfterSeconds": 1}
TOO_LARGE = {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]}


@pytest.mark.parametrize(
    ("error", "code", "reason", "message", "details"),
    [
        (status.not_found(JOBS, "x"), 404, "NotFound", 'jobs.batch "x" not found', NAMED),
        (status.not_found(PODS, "x"), 404, "NotFound", 'pods "x" not found', {"name": "x", "kind": "pods"}),
        (status.already_exists(JOBS, "x"), 409, "AlreadyExists", 'jobs.batch "x" already exists', NAMED),
        (status.generate_name_conflict(JOBS, "x"), 409, "AlreadyExists",
         'jobs.batch "x" already exists, the server was not able to '
         "generate a unique name for the object", {**NAMED, **AGAIN}),
        (status.conflict(JOBS, "x", "why"), 409, "Conflict", 'Operation cannot be fulfilled on jobs.batch "x": why', NAMED),
        (status.forbidden(JOBS, "x", "why"), 403, "Forbidden", 'jobs.batch "x" is forbidden: why', NAMED),
        (status.forbidden(JOBS, "", "why"), 403, "Forbidden", "jobs.batch is forbidden: why", {"group": "batch", "kind": "jobs"}),
        (status.forbidden(GroupResource("", ""), "x", "why"), 403, "Forbidden", "forbidden: why", {"name": "x"}),
        (status.unauthorized(), 401, "Unauthorized", "Unauthorized", None),
        (status.bad_request("why"), 400, "BadRequest", "why", None),
        (status.internal(ValueError("why")), 500, "InternalError", "Internal error occurred: why",
         {"causes": [{"message": "why"}]}),
        (status.method_not_supported(PODS, "patch"), 405, "MethodNotAllowed",
         'patch is not supported on resources of kind "pods"',
         {"kind": "pods"}),
        (status.method_not_allowed(), 405, "MethodNotAllowed",
         "the server does not allow this method on the requested resource", {}),
        (status.no_such_resource(), 404, "NotFound", "the server could not find the requested resource", {}),
        (status.too_many_requests("why", 1), 429, "TooManyRequests", "why", AGAIN),
        (status.too_many_requests("why", 0), 429, "TooManyRequests", "why", None),
        (status.service_unavailable("why", 1), 503, "ServiceUnavailable", "why", AGAIN),
        (status.service_unavailable("why"), 503, "ServiceUnavailable", "why", None),
        (status.timeout("why", 1), 504, "Timeout", "Timeout: why", AGAIN),
        (status.timeout("why"), 504, "Timeout", "Timeout: why", {}),
        (status.out_of_time(), 504, "Timeout", "Timeout: request did not complete within the allotted timeout", {}),
        (status.too_large_resource_version(7, 5), 504, "Timeout", "Timeout: Too large resource version: 7, current: 5",
         {**TOO_LARGE, **AGAIN}),
        (status.too_large_resource_version(7, 5, 0), 504, "Timeout", "Timeout: Too large resource version: 7, current: 5",
         TOO_LARGE),
        (status.NotAcceptable("why"), 406, "NotAcceptable", "why", None),
        (status.RequestTooLarge("why"), 413, "RequestEntityTooLarge", "why", None),
        (status.UnsupportedMediaType("why"), 415, "UnsupportedMediaType", "why", None),
        (status.expired("why"), 410, "Expired", "why", None), (status.generic("why"), 500, "", "why", None),
        (status.generic("", 502), 502, "", "", None),
    ],
)  # fmt: skip
def test_the_status_of_an_error(error: StatusError, code: int, reason: str, message: str, details: Any) -> None:
    wanted = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason,
              "details": details, "code": code}  # fmt: skip
    found = error.status
    assert found == {name: value for name, value in wanted.items() if value not in (None, "")}
    assert list(found) == [name for name in wanted if name in found]
    assert error.retry_after == (details or {}).get("retryAfterSeconds", 0)


def test_an_expired_token_is_replaced() -> None:
    assert status.expired("why", "token").status["metadata"] == {"continue": "token"}


ONE, OTHER = required(Path("a"), "why"), invalid(Path("b"), 1, "how")
TEXT, FURTHER = "a: Required value: why", "b: Invalid value: 1: how"


@pytest.mark.parametrize(
    ("errors", "message", "causes"),
    [
        ([], 'Job.batch "x" is invalid', None), ([ONE], f'Job.batch "x" is invalid: {TEXT}', [ONE]),
        ([ONE, OTHER], f'Job.batch "x" is invalid: [{TEXT}, {FURTHER}]', [ONE, OTHER]),
        ([ONE, ONE], f'Job.batch "x" is invalid: {TEXT}', [ONE, ONE]),
    ],
)  # fmt: skip
def test_errors_of_fields(errors: list[Any], message: str, causes: list[Any] | None) -> None:
    found = status.invalid(GroupKind("batch", "Job"), "x", errors)
    assert (found.code, found.reason, found.message) == (422, "Invalid", message)
    assert found.details == {
        "name": "x", "group": "batch", "kind": "Job", **({"causes": [each.cause() for each in causes]} if causes else {}),
    }  # fmt: skip


def test_a_namespace_that_ends() -> None:
    for causes, ending in (
        ([], False),
        ([{"reason": "x"}, {"reason": "NamespaceTerminating"}], True),
        ([{"message": "x"}], False),
    ):
        assert status.is_namespace_ending(status.Forbidden("why", details={"causes": causes})) is ending
    assert not status.is_namespace_ending(status.Forbidden("why"))


@pytest.mark.parametrize(
    ("code", "method", "said", "reason", "message"),
    [
        (403, "GET", "no", "Forbidden", "no"), (415, "GET", "no", "UnsupportedMediaType", "no"),
        (406, "GET", "no", "NotAcceptable", "no"),
        *((406, "GET", said, "NotAcceptable", "the server was unable to respond with a content type that the client supports")
          for said in ("", "unknown")),
        (409, "POST", "", "AlreadyExists", "the server reported a conflict"),
        (409, "PUT", "", "Conflict", "the server reported a conflict"),
        (400, "POST", "", "BadRequest", "the server rejected our request for an unknown reason"),
        (401, "GET", "", "Unauthorized", "the server has asked for the client to provide credentials"),
        (404, "POST", "", "NotFound", "the server could not find the requested resource"),
        (405, "GET", "", "MethodNotAllowed", "the server does not allow this method on the requested resource"),
        (422, "POST", "", "Invalid", "the server rejected our request due to an error in our request"),
        (429, "POST", "", "TooManyRequests", "the server has received too many requests and has asked us to try again later"),
        (503, "GET", "", "ServiceUnavailable", "the server is currently unable to handle the request"),
        (504, "GET", "", "Timeout",
         "the server was unable to return a response in the time allotted, but may still be processing the "
         "request"),
        (500, "GET", "no", "InternalError", 'an error on the server ("no") has prevented the request from succeeding'),
        (502, "GET", "no", "InternalError", 'an error on the server ("no") has prevented the request from succeeding'),
    ],
)  # fmt: skip
def test_an_answer_without_a_status(code: int, method: str, said: str, reason: str, message: str) -> None:
    assert without_status(code, method, said) == (reason, message)


def test_what_such_an_answer_says() -> None:
    assert unstructured_text(b" why\n", "text/plain; x=y") == unstructured_text(b"why", " TEXT/x") == "why"
    assert unstructured_text(b"why", "") == "why"
    assert unstructured_text(b"why", "application/json") == "unknown"
    assert unstructured_text(b"x" * 3000, "text/plain") == "x" * 2048
