"""Conversion webhooks: sends a ConversionReview and checks the answer.

Upstream: apiextensions ``apiserver/conversion/webhook_converter.go``.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping

import orjson
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from kapi.machinery import status, tree
from kapi.machinery.each import costly
from kapi.machinery.tree import Object, Tree
from kapi.registry.conversion import Unconverted

#: (client configuration, review, timeout in seconds) -> the decoded answer
Post = Callable[[Mapping[str, Tree], Object, float], Awaitable[Object]]
#: starts a coroutine that goes on when the request that started it is cancelled
Begin = Callable[[Coroutine[Deferred[object], object, None]], Deferred[None]]

_TIMEOUT_SECONDS = 30.0
_CACHE_SIZE = 4096  # conversions; it grows while a list with more objects is answered
_MAX_CACHE_SIZE = 100_000
_REVIEWS = ("v1", "v1beta1")


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
        converted = await self._request(list(objects.values()), api_version, name)
        for (key, original), result in zip(objects.items(), converted, strict=True):
            self._cache[key] = _checked(original, result, api_version, name)
        # the request needs these together with what it has already used
        capacity = max(_CACHE_SIZE, min(self._hits + len(objects), _MAX_CACHE_SIZE))
        self._hits = 0
        while len(self._cache) > capacity:
            self._cache.popitem(last=False)

    async def _request(self, objects: list[Object], api_version: str, name: str) -> list[Object]:
        version = next((item for item in self._reviews if item in _REVIEWS), "")
        if not version:
            raise status.generic("no supported conversion review versions")
        uid, review_version = str(uuid.uuid4()), f"apiextensions.k8s.io/{version}"
        review: Object = {
            "kind": "ConversionReview",
            "apiVersion": review_version,
            "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": objects},
        }
        try:
            answer = await self._post(self._config, review, _TIMEOUT_SECONDS)
        except status.StatusError:
            raise
        except Exception as error:
            raise _failed(name, str(error)) from error
        return _converted_objects(answer, review_version, uid, len(objects), name)


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


def _failed(name: str, why: str) -> status.StatusError:
    return status.generic(f"conversion webhook for {name} failed: {why}")


def _converted_objects(answer: Object, api_version: str, uid: str, count: int, name: str) -> list[Object]:
    response = answer.get("response")
    if api_version.endswith("/v1") and (answer.get("apiVersion"), answer.get("kind")) != (
        api_version,
        "ConversionReview",
    ):
        given = f"{answer.get('apiVersion', '')}, Kind={answer.get('kind', '')}"
        raise _failed(name, f"expected webhook response of {api_version}, Kind=ConversionReview, got {given}")
    if not isinstance(response, dict):
        raise _failed(name, "no response provided")
    if api_version.endswith("/v1") and response.get("uid") != uid:
        raise _failed(name, f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    result, objects = response.get("result") or {}, response.get("convertedObjects") or []
    if not isinstance(result, dict) or not isinstance(objects, list):
        raise _failed(name, "couldn't get version/kind; json parse error: the response is no ConversionResponse")
    if result.get("status") != "Success":
        said = result.get("message") or f"response.result.status was '{result.get('status', '')}', not 'Success'"
        raise _failed(name, str(said))
    if len(objects) != count:
        raise status.generic(f"conversion webhook for {name} returned {len(objects)} objects, expected {count}")
    return objects


def _checked(original: Object, converted: object, api_version: str, name: str) -> Object:
    """The converted object with the original metadata, except labels and annotations.  Raises StatusError."""

    def refuse(what: str, why: str) -> status.StatusError:
        return status.generic(f"conversion webhook for {name} returned invalid {what}: {why}")

    if not isinstance(converted, dict):
        raise refuse("object", "no object")
    where = "object at index 0"
    if converted.get("apiVersion") != api_version:
        raise refuse(
            where, f"invalid groupVersion (expected {api_version}, received {converted.get('apiVersion', '')})"
        )
    if converted.get("kind") != original.get("kind"):
        raise refuse(where, f"invalid kind (expected {original.get('kind')}, received {converted.get('kind', '')})")
    given, own = converted.get("metadata"), original.get("metadata") or {}
    if not isinstance(given, dict):
        raise refuse("metadata", "missing metadata in converted object")
    for field in ("name", "namespace"):
        if given.get(field, "") != own.get(field, ""):
            raise refuse("object", f"must have the same {field}: {own.get(field, '')} != {given.get(field, '')}")
    if given.get("uid", "") != own.get("uid", ""):
        raise refuse("object", f"must have the same UID: {own.get('uid', '')} != {given.get('uid', '')}")
    metadata: Object = tree.copy(own)
    for field in ("labels", "annotations"):
        values = given.get(field)
        if values is None:
            metadata.pop(field, None)
            continue
        if not isinstance(values, dict):
            raise refuse("metadata", f"invalid metadata.{field} of type {type(values).__name__} in converted object")
        for key, value in values.items():
            if not isinstance(value, str):
                raise refuse("metadata", f"metadata.{field}[{key}] must be a string in converted object")
        metadata[field] = values
    return {**converted, "metadata": metadata}
