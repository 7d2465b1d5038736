"""MutatingAdmissionWebhook: webhooks are called one after the other, each with the result of the previous one."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import cast

import orjson

from kapi.admission.interface import Attributes
from kapi.admission.versions import in_version, row_of, to_storage
from kapi.admission.webhook.calls import CallFailed, WebhookPlugin
from kapi.admission.webhook.matching import Invocation, selected
from kapi.admission.webhook.review import Answer
from kapi.codecs import json_pieces, json_reading
from kapi.codecs.reading import DecodingError, as_object
from kapi.machinery import tree
from kapi.machinery.gvk import GroupVersionKind
from kapi.machinery.status import StatusError, internal
from kapi.machinery.tree import Object, Tree
from kapi.resources.admissionregistration.webhooks import MUTATING
from kapi.schema import jsonpatch
from kapi.schema.builtin import names_by_kind, type_of
from kapi.schema.decode import decode
from kapi.schema.decode_exact import ExactDecoder
from kapi.schema.patched_text import json_patched
from kapi.schema.structural.coercion import decode_metadata


@dataclass(slots=True)
class Passes:
    """State for the second pass: the webhooks that may be called again, and those that have to be."""

    last_output: Object | None = None
    may_reinvoke: set[str] = field(default_factory=set)
    to_reinvoke: set[str] = field(default_factory=set)

    def require(self) -> None:
        self.to_reinvoke |= self.may_reinvoke
        self.may_reinvoke = set()

    def changed(self, attributes: Attributes) -> None:
        """Called when the plugin has changed the object: earlier webhooks may be called again."""
        self.require()
        if attributes.reinvocation is not None:
            attributes.reinvocation.request()


def begin_pass(plugin: str, attributes: Attributes) -> tuple[Passes, bool]:
    """The plugin's state between its passes, and whether this is the second pass."""
    reinvocation = attributes.reinvocation
    if reinvocation is None:
        return Passes(), False
    passes = cast(Passes, reinvocation.seen.setdefault(plugin, Passes()))
    if reinvocation.again and not tree.equal(passes.last_output, attributes.obj):
        passes.require()
    return passes, reinvocation.again


class MutatingAdmissionWebhook(WebhookPlugin):
    kind = "admit"
    row = MUTATING

    def admit(self, attributes: Attributes) -> Awaitable[None] | None:
        return self.call(attributes)

    async def dispatch(self, named: tuple[tuple[int, Invocation], ...], attributes: Attributes) -> None:
        passes, again = begin_pass(self.name, attributes)
        reinvocation = attributes.reinvocation
        try:
            for i, invocation in named:
                hook = invocation.hook
                if again and hook.uid not in passes.to_reinvoke:
                    continue
                if not await selected(invocation, self.initializer, attributes):
                    continue
                versioned = in_version(attributes.obj, invocation.kind, attributes)
                if not await self.holds(invocation, attributes, versioned):
                    continue
                changed = await self._call(invocation, attributes, versioned, 1 if again else 0, i)
                if changed:
                    passes.changed(attributes)
                if hook.reinvoke:
                    passes.may_reinvoke.add(hook.uid)
        finally:
            if reinvocation is not None and reinvocation.requested and not again:
                passes.last_output = None if attributes.obj is None else tree.copy(attributes.obj)

    async def _call(
        self, invocation: Invocation, attributes: Attributes, versioned: Object | None, pass_: int, index: int
    ) -> bool:
        """Calls a hook; returns whether it has changed the object."""
        hook = invocation.hook
        place = f"round_{pass_}_index_{index}"
        note = f"failed-open.mutation.webhook.admission.k8s.io/{place}"
        changed = False

        def use(answer: Answer) -> None:
            nonlocal changed
            if answer.patch:
                changed = self._patch(invocation, attributes, versioned, answer, place)

        try:
            await self.run(invocation, attributes, versioned, note, use)
        finally:
            said = {"configuration": hook.configuration, "webhook": hook.name, "mutated": changed}
            attributes.annotate(f"mutation.webhook.admission.k8s.io/{place}", orjson.dumps(said).decode())
        return changed

    def _patch(
        self, invocation: Invocation, attributes: Attributes, versioned: Object | None, answer: Answer, place: str
    ) -> bool:
        hook = invocation.hook
        try:
            operations, _ = jsonpatch.decode(json_reading.loads(answer.patch), strict=False)
        except (json_reading.JSONError, StatusError) as error:
            raise CallFailed(hook.name, f"received undecodable patch in webhook response: {error}", 503) from None
        if not operations:
            return False
        if versioned is None or attributes.obj is None:
            raise internal(
                f'admission webhook "{hook.name}" attempted to modify the object, which is not supported for this operation'
            )
        if answer.patch_type != "JSONPatch":
            raise CallFailed(hook.name, f'unsupported patch type "{answer.patch_type}"', 503)
        try:
            patched = jsonpatch.patched(versioned, operations, sharing=True)
        except jsonpatch.PatchError as error:
            raise internal(error) from None
        new = _read(patched, invocation.kind, versioned if versioned is attributes.obj else None)
        said = {
            "configuration": hook.configuration,
            "webhook": hook.name,
            "patch": operations,
            "patchType": answer.patch_type,
        }
        attributes.annotate(f"patch.webhook.admission.k8s.io/{place}", json_pieces.dumps(said).decode())
        changed = not tree.equal(new, versioned)  # a change that defaulting undoes counts as a change
        _default(new, invocation.kind)
        attributes.obj = to_storage(new, invocation.kind, attributes.obj, attributes)
        return changed


def decoded(
    obj: object, kind: GroupVersionKind, before: Object | None, operations: list[Object] | None = None
) -> Object:
    """A patched object read and defaulted like a request's body.  Raises InternalError.

    ``before``: the object that was patched, if it was decoded in this way: fields that the patch has not reached are not decoded
    again.  ``operations``: of a JSON patch that must not add unknown fields; these are reported in the order of the patched text.
    """
    result = _read(obj, kind, before, operations)
    _default(result, kind)
    return result


def _read(
    patched: object, kind: GroupVersionKind, before: Object | None, operations: list[Object] | None = None
) -> Object:
    is_typed = kind in names_by_kind()
    try:
        obj = as_object(patched)
        if is_typed:  # the object may lack its kind
            obj = {
                **obj,
                "kind": obj.get("kind") or kind.kind,
                "apiVersion": obj.get("apiVersion") or str(kind.group_version),
            }
        if (obj.get("apiVersion"), obj.get("kind")) != (str(kind.group_version), kind.kind):
            if is_typed:
                _decoded(obj, kind, "Ignore")  # tells more of kinds that are unknown
            raise ValueError("the patched object is of another kind")
        if is_typed:
            left = (
                {} if before is None else {key: value for key, value in obj.items() if _is_left(value, before.get(key))}
            )
            changed = {key: value for key, value in obj.items() if key not in left}
            read = _decoded(changed, kind, "Ignore") if operations is None else _strictly(changed, kind, operations)
            found = {**read, **left}
            return {key: found[key] for key in dict.fromkeys((*list(read)[:2], *obj, *read)) if key in found}
        return {**obj, "metadata": decode_metadata(obj.get("metadata"), ExactDecoder())}
    except DecodingError as error:
        raise internal(error.cause) from None
    except ValueError as error:
        raise internal(error) from None


def _decoded(obj: Object, kind: GroupVersionKind, validation: str) -> Object:
    return decode(obj, kind, type_of(kind), validation, lambda text: None)


def _strictly(obj: Object, kind: GroupVersionKind, operations: list[Object]) -> Object:
    try:
        return _decoded(obj, kind, "Strict")
    except DecodingError:
        _decoded(json_patched(obj, type_of(kind), operations), kind, "Strict")
        raise


def _is_left(value: Tree, before: Tree) -> bool:
    return value is before and type(value) in (dict, list) and bool(value)


def _default(obj: Object, kind: GroupVersionKind) -> None:
    row = row_of(kind)
    if row is not None:
        row.strategy.default(obj)
