"""Conversion webhooks: sends a ConversionReview and checks the answer.

Upstream: apiextensions ``apiserver/conversion/webhook_converter.go``.
"""

from __future__ import annotations

import time
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping

import orjson
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from kapi.client import typed
from kapi.client.answers import check_kind
from kapi.codecs.json_reading import kind_of
from kapi.machinery import status, tree
from kapi.machinery.each import costly, entries
from kapi.machinery.field import Path
from kapi.machinery.golang import aggregate, quote, type_name
from kapi.machinery.meters import counter, exponential, histogram
from kapi.machinery.tree import Object, Tree
from kapi.registry.conversion import Unconverted
from kapi.resources.shared.metadata import validate_annotations, validate_labels
from kapi.resources.shared.rules import Errors

#: (client configuration, review, timeout in seconds) -> the decoded answer
Post = Callable[[Mapping[str, Tree], Object, float], Awaitable[Object]]
#: starts a coroutine that goes on when the request that started it is cancelled
Begin = Callable[[Coroutine[Deferred[object], object, None]], Deferred[None]]

_SECONDS_BOUNDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0)
REQUESTS = counter("apiserver_conversion_webhook_request_total")
SECONDS = histogram("apiserver_conversion_webhook_duration_seconds", _SECONDS_BOUNDS)
CONVERSION_SECONDS = histogram("apiserver_crd_conversion_webhook_duration_seconds", exponential(0.001, 2, 15))
COLLECTORS = (REQUESTS, SECONDS, CONVERSION_SECONDS)
_TIMEOUT_SECONDS = 30.0
_CACHE_SIZE = 4096  # conversions; it grows while a list with more objects is answered
_MAX_CACHE_SIZE = 100_000
_REVIEWS = ("v1", "v1beta1")
_GROUP = "apiextensions.k8s.io"
_OLD = f"{_GROUP}/v1beta1"  # whose uid and kind upstream does not check
_RESPONSE = {
    "uid": typed.text("types.UID"),
    "convertedObjects": typed.list_of(lambda value, path: None, "runtime.RawExtension"),
    "result": typed.STATUS,
}
_KINDS = {
    ("ConversionReview", f"{_GROUP}/{version}"): typed.struct(
        f"{version}.ConversionReview",
        request=typed.struct(f"{version}.ConversionRequest"),
        response=typed.struct(f"{version}.ConversionResponse", **_RESPONSE),
    )
    for version in _REVIEWS
} | {("CustomResourceDefinition", f"{_GROUP}/{version}"): typed.struct("") for version in _REVIEWS}
#: the fields of metadata that a webhook may change, with their names in errors
_CHANGEABLE = (("labels", validate_labels, "labels"), ("annotations", validate_annotations, "annotation"))


def _key(obj: Object, api_version: str) -> bytes:
    return api_version.encode() + b" " + orjson.dumps(obj, option=orjson.OPT_SORT_KEYS)


class FunctionConverter:
    """Converts by a function of this process, which gets a copy of the object and the apiVersion."""

    def __init__(self, convert: Callable[[Object, str], Object]) -> None:
        self._convert = convert

    def convert(self, obj: Object, api_version: str) -> Object:
        copied: Object = tree.copy(obj)
        return copied if obj.get("apiVersion") == api_version else self._convert(copied, api_version)

    async def fetch(self, objects: Iterable[Object], api_version: str) -> None:
        """Nothing has to be fetched."""


class WebhookConverter:
    """The converter of one definition."""

    def __init__(self, crd: Object, post: Post, begin: Begin = Deferred.fromCoroutine) -> None:
        """``begin`` runs a call for which several requests may wait."""
        webhook = crd["spec"]["conversion"].get("webhook") or {}
        self._config = webhook.get("clientConfig") or {}
        self._reviews = webhook.get("conversionReviewVersions") or []
        self._name = crd["metadata"]["name"]
        self._post = post
        self._begin = begin
        self._cache: OrderedDict[bytes, Object] = OrderedDict()
        self._hits = 0  # uses of the cache since the last call
        self._running: dict[bytes, _Call] = {}  # calls that have not been answered, by the keys of their objects

    def convert(self, obj: Object, api_version: str) -> Object:
        """A copy of the converted object from the cache.  Raises Unconverted when it is not there."""
        if obj.get("apiVersion") == api_version:
            same: Object = tree.copy(obj)
            return same
        key = _key(obj, api_version)
        found = self._cache.get(key)
        if found is None:
            raise Unconverted(obj, api_version)
        self._cache.move_to_end(key)
        self._hits += 1
        copied: Object = tree.copy(found)
        return copied

    async def fetch(self, objects: Iterable[Object], api_version: str) -> None:
        """Converts all objects in one call, and waits for calls of other requests that convert some of them.

        The results are in the cache afterwards.  Raises StatusError.
        """
        keyed = [(_key(obj, api_version), obj) for obj in costly(objects) if obj.get("apiVersion") != api_version]
        missing: dict[bytes, Object] = {}
        calls: dict[_Call, None] = {}
        for key, obj in keyed:  # without a checkpoint: another request might start the same call
            if key in self._cache:
                continue
            call = self._running.get(key)
            if call is None:
                missing[key] = obj
            else:
                calls[call] = None
        if missing:
            calls[_Call(self._running, missing, self._begin(self._fetch(missing, api_version)))] = None
        for call in calls:
            await call.result()

    async def _fetch(self, objects: dict[bytes, Object], api_version: str) -> None:
        first = next(iter(objects.values()))
        group_version = first.get("apiVersion", "")
        name = f"{group_version}, Kind={first.get('kind', '')}"
        began, failure = time.perf_counter(), "conversion_webhook_call_failure"
        try:
            review = self._review(list(objects.values()), api_version)
            answer = await self._ask(review, name)
            failure = "conversion_webhook_malformed_response_failure"
            converted = _converted_objects(answer, review, name)
            failure = "conversion_webhook_partial_response_failure"
            if len(converted) != len(objects):
                text = f"conversion webhook for {name} returned {len(converted)} objects, expected {len(objects)}"
                raise status.generic(text)
            failure = "conversion_webhook_invalid_converted_object_failure"
            for (key, original), result in zip(objects.items(), converted, strict=True):
                self._cache[key] = _checked(original, result, api_version, name)
            failure = ""
        finally:
            took, outcome = time.perf_counter() - began, "failure" if failure else "success"
            REQUESTS.add(outcome, failure)
            SECONDS.observe(took, outcome, failure)
            versions = (each.rpartition("/")[2] for each in (group_version, api_version))
            CONVERSION_SECONDS.observe(took, self._name, *versions, str(not failure).lower())
        # the request needs these together with what it has already used
        capacity = max(_CACHE_SIZE, min(self._hits + len(objects), _MAX_CACHE_SIZE))
        self._hits = 0
        while len(self._cache) > capacity:
            self._cache.popitem(last=False)

    def _review(self, objects: list[Object], api_version: str) -> Object:
        version = next((item for item in self._reviews if item in _REVIEWS), "")
        if not version:
            raise status.generic("no supported conversion review versions")
        return {
            "kind": "ConversionReview",
            "apiVersion": f"{_GROUP}/{version}",
            "request": {
                "uid": str(uuid.uuid4()),
                "desiredAPIVersion": api_version,
                "objects": list(map(_unversioned, objects)),
            },
            "response": {"uid": "", "convertedObjects": None, "result": {"metadata": {}}},
        }

    async def _ask(self, review: Object, name: str) -> Object:
        try:
            answer = await self._post(self._config, review, _TIMEOUT_SECONDS)
            check_kind(answer, "ConversionReview", review["apiVersion"], _KINDS, typed.WEBHOOK_SCHEME)
            return answer
        except status.StatusError:
            raise
        except Exception as error:
            raise _failed(name, error) from error


def _unversioned(obj: Object) -> Object:
    """The object without its resourceVersion, which stored objects do not have upstream."""
    metadata = obj.get("metadata") or {}
    return {**obj, "metadata": {key: value for key, value in entries(metadata) if key != "resourceVersion"}}


class _Call:
    """A running call for which several requests may wait.  It goes on when the first request is cancelled."""

    def __init__(self, asked: dict[bytes, _Call], keys: Iterable[bytes], call: Deferred[None]) -> None:
        self._running = asked
        self._keys = list(keys)
        self._waiting: list[Deferred[None]] = []
        self._result: Failure | None = None
        self._done = False
        asked.update(dict.fromkeys(self._keys, self))
        call.addBoth(self._end)

    def _end(self, result: Failure | None) -> None:
        self._done, self._result = True, result
        for key in self._keys:
            self._running.pop(key, None)
        waiting, self._waiting = self._waiting, []
        for deferred in waiting:
            if not deferred.called:
                deferred.callback(result)

    def result(self) -> Deferred[None]:
        """Fires at the end, with the call's failure if it failed."""
        deferred: Deferred[None] = Deferred()
        if self._done:
            deferred.callback(self._result)
        else:
            self._waiting.append(deferred)
        return deferred


def _failed(name: str, why: object) -> status.StatusError:
    return status.generic(f"conversion webhook for {name} failed: {why}")


def _converted_objects(answer: Object, review: Object, name: str) -> list[Tree]:
    api_version, uid = review["apiVersion"], review["request"]["uid"]
    response, is_old = answer.get("response"), api_version == _OLD
    given, kind = answer.get("apiVersion") or "", answer.get("kind") or ""
    if not is_old and not (given and kind):
        group, _, version = given.rpartition("/")
        found = f"{group}/{version}, Kind={kind}"
        raise _failed(name, f"expected webhook response of {api_version}, Kind=ConversionReview, got {found}")
    if response is None:
        raise _failed(name, "no response provided")
    if not is_old and (response.get("uid") or "") != uid:
        raise _failed(name, f'expected response.uid="{uid}", got {quote(response.get("uid") or "")}')
    result = response.get("result") or {}
    if result.get("status") != "Success":
        said = result.get("message") or f"response.result.status was '{result.get('status') or ''}', not 'Success'"
        raise _failed(name, said)
    return response.get("convertedObjects") or []


def _checked(original: Object, converted: Tree, api_version: str, name: str) -> Object:
    """The converted object with the original metadata, except labels and annotations.  Raises StatusError."""

    def refuse(what: str, why: object) -> status.StatusError:
        return status.generic(f"conversion webhook for {name} returned invalid {what}: {why}")

    if converted is None:
        raise status.generic("unexpected end of JSON input")
    if not isinstance(converted, dict):
        raise status.generic(
            f"json: cannot unmarshal {kind_of(converted)} into Go value of type map[string]interface {{}}"
        )
    given, kind = _text(converted, "apiVersion"), _text(converted, "kind")
    if not kind or given.count("/") > 1:
        raise status.generic(f"Object 'Kind' is missing in '{orjson.dumps(converted).decode()}'")
    if given != api_version:
        why = f"invalid groupVersion (expected {api_version}, received {given})"
        raise refuse("object at index 0", why)
    if kind != original.get("kind"):
        raise refuse("object at index 0", f"invalid kind (expected {original.get('kind')}, received {kind})")
    metadata, own = converted.get("metadata"), original.get("metadata") or {}
    for field, shown in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        before, after = _text(own, field), _text(metadata, field)
        if before != after:
            raise refuse("object", f"must have the same {shown}: {before} != {after}")
    if not isinstance(metadata, dict):  # and the original has no name
        raise refuse("metadata", "missing metadata in converted object")
    restored: Object = tree.copy(own)
    for field, validate, path in _CHANGEABLE:
        values = metadata.get(field)
        if values is None:
            restored.pop(field, None)
            continue
        if not isinstance(values, dict):
            raise refuse("metadata", f"invalid metadata.{field} of type {_type_of(values)} in converted object")
        for key, value in entries(values):
            if not isinstance(value, str):
                why = f"must be a string, but is {_type_of(value)} in converted object"
                raise refuse("metadata", f"metadata.{field}[{key}] {why}")
        if values != restored.get(field):
            errors: Errors = []
            validate(values, Path().child("metadata", path), errors)
            if errors:
                raise refuse("metadata", aggregate(map(str, errors)))
        restored[field] = values
    return {**converted, "metadata": restored}


def _text(obj: Tree, field: str) -> str:
    """A field as upstream's accessors of unstructured objects read it: "" for another type."""
    value = obj.get(field) if isinstance(obj, dict) else ""
    return value if isinstance(value, str) else ""


def _type_of(value: Tree) -> str:
    return "<nil>" if value is None else type_name(value)
