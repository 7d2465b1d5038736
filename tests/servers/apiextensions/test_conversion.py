"""Conversion by webhook: one call for many objects, answers checked, nothing asked twice."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object
from kapi.registry.conversion import Unconverted, converting
from kapi.servers.apiextensions.conversion import REQUESTS, WebhookConverter
from kapi.testing.memory_api import succeed

CRD: Object = {
    "metadata": {"name": "ws.g"},
    "spec": {
        "conversion": {"webhook": {"clientConfig": {"url": "https://x/"}, "conversionReviewVersions": ["v2", "v1"]}}
    },
}


def _object(name: str) -> Object:
    return {
        "apiVersion": "g/v1",
        "kind": "W",
        "metadata": {"name": name, "uid": "u", "labels": {"a": "b"}},
        "spec": {"a": name},
    }


class Webhook:
    """Answers as told; remembers what it was asked."""

    def __init__(self, **changes: Any) -> None:
        self.changes = changes
        self.asked: list[Object] = []

    async def __call__(self, config: Any, review: Object, timeout: float) -> Object:
        self.asked.append(review)
        request = review["request"]
        objects = [
            {**obj, "apiVersion": request["desiredAPIVersion"], **self.changes.get("object", {})}
            for obj in request["objects"]
        ]
        response = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects}
        return {
            "kind": "ConversionReview",
            "apiVersion": review["apiVersion"],
            "response": {**response, **self.changes.get("response", {})},
            **self.changes.get("review", {}),
        }


def _run(converter: WebhookConverter, names: list[str]) -> list[Object]:
    objects = [_object(name) for name in names]

    async def convert() -> list[Object]:
        return [converter.convert(obj, "g/v2") for obj in objects]

    def missing() -> list[Object]:
        found = []
        for obj in objects:
            try:
                converter.convert(obj, "g/v2")
            except Unconverted as need:
                found.append(need.obj)
        return found

    converted: list[Object] = succeed(converting(converter, convert, missing))
    return converted


def test_a_list_is_converted_in_one_call_and_remembered() -> None:
    webhook = Webhook()
    converter = WebhookConverter(CRD, webhook)
    assert [obj["apiVersion"] for obj in _run(converter, ["a", "b", "c"])] == ["g/v2"] * 3
    assert len(webhook.asked) == 1
    assert webhook.asked[0]["apiVersion"] == "apiextensions.k8s.io/v1"
    assert len(webhook.asked[0]["request"]["objects"]) == 3
    _run(converter, ["b"])
    assert len(webhook.asked) == 1


def test_a_list_of_more_than_is_remembered() -> None:
    webhook = Webhook()
    converter = WebhookConverter(CRD, webhook)
    names = [f"n{number}" for number in range(6000)]
    _run(converter, names[:3000])
    assert len(_run(converter, names)) == 6000
    assert [len(asked["request"]["objects"]) for asked in webhook.asked] == [3000, 3000]
    _run(converter, ["another"])
    _run(converter, ["one more"])
    assert len(converter._cache) == 4096  # what nobody has used since is forgotten


def test_without_asking_first_nothing_is_converted() -> None:
    with pytest.raises(Unconverted):
        WebhookConverter(CRD, Webhook()).convert(_object("a"), "g/v2")


def test_only_labels_and_annotations_of_metadata_may_change() -> None:
    metadata = {"name": "a", "uid": "u", "annotations": {"x": "y"}, "generation": 99}
    (obj,) = _run(WebhookConverter(CRD, Webhook(object={"metadata": metadata})), ["a"])
    assert obj["metadata"] == {"name": "a", "uid": "u", "annotations": {"x": "y"}}


def test_a_review_is_sent_as_upstream_sends_it() -> None:
    webhook = Webhook()
    obj = _object("a")
    obj["metadata"]["resourceVersion"] = "5"
    succeed(WebhookConverter(CRD, webhook).fetch([obj], "g/v2"))
    (review,) = webhook.asked
    assert review["request"]["objects"] == [_object("a")]
    assert review["response"] == {"uid": "", "convertedObjects": None, "result": {"metadata": {}}}


def test_calls_are_counted() -> None:
    before = dict(REQUESTS.rows)
    _run(WebhookConverter(CRD, Webhook()), ["a"])
    for changes in ({"review": {"kind": "X"}}, {"review": {"kind": ""}}, {"response": {"convertedObjects": []}},
                    {"object": {"kind": "X"}}):  # fmt: skip
        with pytest.raises(StatusError):
            _run(WebhookConverter(CRD, Webhook(**changes)), ["a"])
    more = {key: number - before.get(key, 0) for key, number in REQUESTS.rows.items()}
    causes = ("call", "malformed_response", "partial_response", "invalid_converted_object")
    failures = {("failure", f"conversion_webhook_{cause}_failure"): 1 for cause in causes}
    assert {key: number for key, number in more.items() if number} == {("success", ""): 1, **failures}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"response": {"result": {"status": "Failed", "message": "no way"}}},
            "conversion webhook for g/v1, Kind=W failed: no way",
        ),
        ({"response": {"convertedObjects": []}}, "conversion webhook for g/v1, Kind=W returned 0 objects, expected 1"),
        ({"response": {"uid": "other"}}, "expected response.uid="),
        ({"response": {"uid": None}}, '", got ""'),
        ({"response": {"result": {"status": "Failure"}}}, "response.result.status was 'Failure', not 'Success'"),
        ({"response": {"result": None}}, "response.result.status was '', not 'Success'"),
        ({"response": {"result": 1}}, "cannot unmarshal number into Go struct field ConversionResponse.response.result of"),
        ({"response": {"convertedObjects": 5}}, "response.convertedObjects of type []runtime.RawExtension"),
        ({"response": {"convertedObjects": [None]}}, "unexpected end of JSON input"),
        ({"response": {"convertedObjects": ["x"]}}, "json: cannot unmarshal string into Go value of type map[string]interface"),
        ({"response": {"convertedObjects": [{}]}}, "Object 'Kind' is missing in '{}'"),
        ({"object": {"kind": 5, "metadata": None, "spec": None}},
         """Object 'Kind' is missing in '{"apiVersion":"g/v2","kind":5,"metadata":null,"spec":null}'"""),
        ({"object": {"apiVersion": 5}}, "invalid groupVersion (expected g/v2, received )"),
        ({"object": {"metadata": "x"}}, "W returned invalid object: must have the same name: a != "),
        ({"object": {"metadata": {"name": "a", "uid": 1}}}, "must have the same UID: u != "),
        ({"object": {"metadata": {"name": "a", "uid": "u", "labels": "x"}}},
         "W returned invalid metadata: invalid metadata.labels of type string in converted object"),
        ({"object": {"metadata": {"name": "a", "uid": "u", "labels": {"k": None}}}},
         "metadata.labels[k] must be a string, but is <nil> in converted object"),
        ({"object": {"metadata": {"name": "a", "uid": "u", "labels": {"k": "!"}}}},
         'invalid metadata: metadata.labels: Invalid value: "!": a valid label must be'),
        ({"object": {"metadata": {"name": "a", "uid": "u", "annotations": {"k": "x" * 262145}}}},
         "invalid metadata: metadata.annotation: Too long: may not be more than 262144 bytes"),
        ({"review": {"apiVersion": "apiextensions.k8s.io/v1beta1"}},
         "failed: converting (v1beta1.ConversionReview) to (v1.ConversionReview): unknown conversion"),
        ({"review": {"kind": "CustomResourceDefinition"}},
         "failed: converting (v1.CustomResourceDefinition) to (v1.ConversionReview): unknown conversion"),
        ({"review": {"kind": ""}}, "got apiextensions.k8s.io/v1, Kind="),
        ({"review": {"response": []}},
         "json: cannot unmarshal array into Go struct field ConversionReview.response of type v1.ConversionResponse"),
        ({"review": {"response": None}}, "failed: no response provided"),
        ({"object": {"apiVersion": "g/v9"}}, "invalid groupVersion (expected g/v2, received g/v9)"),
        ({"object": {"kind": "X"}}, "invalid kind (expected W, received X)"),
        ({"object": {"metadata": {"name": "z", "uid": "u"}}}, "must have the same name: a != z"),
        (
            {"object": {"metadata": {"name": "a", "uid": "u", "labels": {"k": 1}}}},
            "metadata.labels[k] must be a string",
        ),
    ],
)  # fmt: skip
def test_an_answer_that_is_not_right_is_refused(changes: Object, text: str) -> None:
    with pytest.raises(StatusError) as caught:
        _run(WebhookConverter(CRD, Webhook(**changes)), ["a"])
    assert text in caught.value.message
