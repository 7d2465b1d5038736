"""Conversion by webhook: one call for many objects, answers checked, nothing asked twice."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred

from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object
from kapi.registry.conversion import Unconverted, converting
from kapi.servers.apiextensions.conversion import (
    CONVERSION_SECONDS,
    REQUESTS,
    SECONDS,
    FunctionConverter,
    WebhookConverter,
)
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
        ({"object": {"metadata": {"name": "a", "namespace": "n", "uid": "u"}}}, "must have the same namespace:  != n"),
        ({"object": {"apiVersion": "a/b/c"}}, "Object 'Kind' is missing in "),
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


def _reviewing(*versions: str) -> Object:
    return {**CRD, "spec": {"conversion": {"webhook": {"conversionReviewVersions": list(versions)}}}}


@pytest.mark.parametrize(
    ("versions", "asked"),
    [(["v1", "v1beta1"], "v1"), (["v1beta1", "v1"], "v1beta1"), (["v3", "v1beta1"], "v1beta1"), (["v3"], ""), ([], "")],
)
def test_the_first_version_of_reviews_that_is_known_is_sent(versions: list[str], asked: str) -> None:
    webhook = Webhook()
    converter = WebhookConverter(_reviewing(*versions), webhook)
    if not asked:
        with pytest.raises(StatusError, match="no supported conversion review versions"):
            _run(converter, ["a"])
        return
    _run(converter, ["a"])
    assert [review["apiVersion"] for review in webhook.asked] == [f"apiextensions.k8s.io/{asked}"]


@pytest.mark.parametrize(
    "changes", [{"response": {"uid": "other"}}, {"review": {"kind": ""}}, {"review": {"apiVersion": ""}}]
)
def test_old_reviews_need_neither_the_uid_nor_the_kind(changes: Object) -> None:
    assert _run(WebhookConverter(_reviewing("v1beta1"), Webhook(**changes)), ["a"])
    with pytest.raises(StatusError):
        _run(WebhookConverter(_reviewing("v1"), Webhook(**changes)), ["a"])


def test_a_function_converts_copies() -> None:
    def convert(obj: Object, api_version: str) -> Object:
        obj["metadata"]["name"] = f"{api_version}!"
        return obj

    obj, converter = _object("a"), FunctionConverter(convert)
    assert converter.convert(obj, "g/v2")["metadata"]["name"] == "g/v2!"
    same = converter.convert(obj, "g/v1")
    assert same == obj == _object("a")
    assert same["metadata"] is not obj["metadata"]
    succeed(converter.fetch([obj], "g/v2"))


def test_what_is_remembered_is_given_as_copies() -> None:
    converter = WebhookConverter(CRD, Webhook())
    [first] = _run(converter, ["a"])
    first["metadata"]["labels"]["a"] = first["spec"]["a"] = "changed"
    assert _run(converter, ["a"]) == [{**_object("a"), "apiVersion": "g/v2"}]
    same = converter.convert(_object("b"), "g/v1")
    assert same == _object("b")
    succeed(converter.fetch([_object("b")], "g/v1"))  # has it already


class Slow(Webhook):
    """Answers when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Deferred[None]] = []
        self.given: list[Any] = []

    async def __call__(self, config: Any, review: Object, timeout: float) -> Object:
        self.given.append((config, timeout))
        self.waiting.append(Deferred())
        answer = await super().__call__(config, review, timeout)
        await self.waiting[-1]
        return answer


def _names(asked: Object) -> list[str]:
    return [obj["metadata"]["name"] for obj in asked["request"]["objects"]]


@pytest.mark.parametrize("fails", [False, True])
def test_what_another_request_asks_for_is_waited_for(fails: bool) -> None:
    webhook = Slow()
    converter = WebhookConverter(CRD, webhook)
    ended: list[list[Any]] = [[], [], []]
    for found, names in zip(ended, ("ab", "bc", "b"), strict=True):
        objects = [_object(name) for name in names]
        Deferred.fromCoroutine(converter.fetch(objects, "g/v2")).addBoth(found.append)
    assert [_names(asked) for asked in webhook.asked] == [["a", "b"], ["c"]]
    assert webhook.given == [({"url": "https://x/"}, 30.0)] * 2
    webhook.waiting[1].callback(None)
    assert ended == [[], [], []]
    if fails:
        webhook.waiting[0].errback(ValueError("gone"))
        texts = [found[0].value.message for found in ended]
        assert texts == ["conversion webhook for g/v1, Kind=W failed: gone"] * 3
        Deferred.fromCoroutine(converter.fetch([_object("b"), _object("c")], "g/v2"))
        assert _names(webhook.asked[-1]) == ["b"], "it is asked for again, and only that"
    else:
        webhook.waiting[0].callback(None)
        assert ended == [[None], [None], [None]]
        assert [converter.convert(_object(name), "g/v2")["spec"]["a"] for name in "abc"] == ["a", "b", "c"]


def test_a_request_that_goes_takes_nothing_from_the_others() -> None:
    webhook = Slow()
    converter = WebhookConverter(CRD, webhook)
    first, second = (Deferred.fromCoroutine(converter.fetch([_object("a")], "g/v2")) for _ in range(2))
    ended: list[Any] = []
    first.addErrback(lambda failure: None).cancel()
    second.addBoth(ended.append)
    assert not ended
    webhook.waiting[0].callback(None)
    assert ended == [None]


@pytest.mark.parametrize("works", [False, True])
def test_the_time_of_a_call_is_measured_by_its_versions(works: bool) -> None:
    label = ("ws.g", "v1", "v2", str(works).lower())
    outcome = ("success", "") if works else ("failure", "conversion_webhook_partial_response_failure")

    def counts() -> list[float]:
        return [sum(meter.rows.get(key, [0])[:-1]) for meter, key in ((CONVERSION_SECONDS, label), (SECONDS, outcome))]

    before = counts()
    try:
        _run(WebhookConverter(CRD, Webhook(**({} if works else {"response": {"convertedObjects": []}}))), ["a"])
    except StatusError:
        assert not works
    assert [after - earlier for after, earlier in zip(counts(), before, strict=True)] == [1, 1]


def test_the_bounds_of_durations_are_those_of_upstream() -> None:
    seconds = "0.005 0.01 0.02 0.05 0.1 0.2 0.5 1 2 5 10 20 30 45 60"
    _run(WebhookConverter(CRD, Webhook()), ["a"])
    for meter, bounds in (
        (SECONDS, list(map(float, seconds.split()))),
        (CONVERSION_SECONDS, [0.001 * 2**power for power in range(15)]),
    ):
        samples = [sample for family in meter.collect() for sample in family.samples if "le" in sample.labels]
        found = dict.fromkeys(float(sample.labels["le"]) for sample in samples)
        assert list(found) == pytest.approx([*bounds, float("inf")])
