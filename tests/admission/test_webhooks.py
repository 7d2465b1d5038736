"""Webhooks over real HTTPS: what they are asked, what their answers do, and what their failures cost."""

from __future__ import annotations

import base64
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from prometheus_client import CollectorRegistry
from twisted.internet import reactor

from kapi.admission.interface import CREATE, DELETE, UPDATE
from kapi.admission.metrics import Meter
from kapi.admission.webhook.review import Answer, BadReview, Undecodable, read_answer
from kapi.machinery.status import BadRequest, StatusError
from kapi.machinery.tree import Object
from tests.admission.fakes import attributes, pod
from tests.admission.webhook_case import (
    RULE,
    WebhookTestCase,
    config_map,
    patch_of,
    respond,
)


class WebhookCase(WebhookTestCase):
    async def test_the_review_says_all_about_the_request(self) -> None:
        chain = self.chain(check=(self.hook(respond),))
        await chain.validate(self.attributes(options={"kind": "CreateOptions"}, dry_run=True))
        request = self.hooks.reviews[0]["request"]
        self.assertEqual(request["kind"], {"group": "", "version": "v1", "kind": "ConfigMap"})
        self.assertEqual(request["requestResource"], {"group": "", "version": "v1", "resource": "configmaps"})
        self.assertEqual((request["operation"], request["dryRun"], request["namespace"]), ("CREATE", True, "n"))
        self.assertEqual(request["userInfo"]["username"], "someone")
        self.assertEqual(request["object"], config_map())
        self.assertIsNone(request["oldObject"])

    async def test_paths_are_asked_for_as_client_go_asks(self) -> None:
        """envtest writes two slashes between host and path; servers in Go redirect to the cleaned path."""
        doubled, ended = self.hook(respond), self.hook(respond)
        doubled["clientConfig"]["url"] = f"https://127.0.0.1:{self.number}//0"
        ended["clientConfig"]["url"] += "/"
        await self.chain(check=(doubled, ended)).validate(self.attributes())
        self.assertEqual(len(self.hooks.reviews), 2)

    async def test_a_refusal_is_answered_in_the_webhooks_words(self) -> None:
        status = {"message": "not on a Friday", "code": 418, "reason": "Teapot"}
        chain = self.chain(check=(self.hook(lambda review: respond(review, allowed=False, status=status)),))
        error = await self.refused(chain)
        self.assertEqual(error.message, 'admission webhook "h0.example.com" denied the request: not on a Friday')
        self.assertEqual((error.code, error.reason), (418, "Teapot"))
        for code, answered in ((200, 400), (999, 999), (1000, 500)):
            status = {"code": code, "metadata": {"resourceVersion": "3"}}
            hook = self.hook(lambda review, status=status: respond(review, allowed=False, status=status))
            error = await self.refused(self.chain(check=(hook,)))
            self.assertEqual((error.code, error.status["metadata"]), (answered, {"resourceVersion": "3"}))

    async def test_the_request_is_told_how_long_webhooks_took(self) -> None:
        waits: list[tuple[str, float]] = []
        asked = self.attributes()
        asked.request = SimpleNamespace(add_wait=lambda *wait: waits.append(wait), trace=None)  # type: ignore[assignment]
        chain = self.chain(mutate=(self.hook(respond),), check=(self.hook(respond), self.hook(respond)))
        await chain.admit(asked)
        await chain.validate(asked)
        self.assertEqual([layer for layer, _ in waits], ["mutating-webhook", "validating-webhook"])
        self.assertTrue(all(0 < wait < 5 for _, wait in waits), waits)

    async def test_one_of_several_may_refuse(self) -> None:
        hooks = (self.hook(respond), self.hook(lambda review: respond(review, allowed=False)), self.hook(respond))
        error = await self.refused(self.chain(check=hooks))
        self.assertEqual(error.message, 'admission webhook "h1.example.com" denied the request without explanation')

    async def test_the_answer_is_the_refusal_that_comes_first(self) -> None:
        later = self.hook(lambda review: respond(review, allowed=False))
        dead = self.hook(respond, clientConfig={"url": "https://127.0.0.1:1/x"})
        error = await self.refused(self.chain(check=(later, dead)))
        self.assertIn('failed calling webhook "h1.example.com"', error.message)

    async def test_a_refusal_without_words(self) -> None:
        chain = self.chain(check=(self.hook(lambda review: respond(review, allowed=False)),))
        error = await self.refused(chain)
        self.assertEqual(error.message, 'admission webhook "h0.example.com" denied the request without explanation')
        self.assertEqual(error.code, 400)

    async def test_patches_change_the_object_one_after_the_other(self) -> None:
        first = self.hook(lambda r: respond(r, **patch_of({"op": "add", "path": "/data/one", "value": "1"})))
        second = self.hook(lambda r: respond(r, **patch_of({"op": "copy", "from": "/data/one", "path": "/data/two"})))
        wanted = self.attributes()
        await self.chain(mutate=(first, second)).admit(wanted)
        self.assertEqual(wanted.obj["data"], {"k": "v", "one": "1", "two": "1"})
        self.assertEqual(
            orjson.loads(wanted.annotations["mutation.webhook.admission.k8s.io/round_0_index_1"]),
            {"configuration": "m", "webhook": "h1.example.com", "mutated": True},
        )

    async def test_warnings_and_audit_annotations_are_passed_on(self) -> None:
        answer = {"warnings": ["careful"], "auditAnnotations": {"why": "because"}}
        wanted = self.attributes()
        await self.chain(check=(self.hook(lambda r: respond(r, **answer)),)).validate(wanted)
        self.assertEqual(wanted.warnings, ["careful"])
        self.assertEqual(wanted.annotations["h0.example.com/why"], "because")

    async def test_audit_annotations_have_names_and_keep_their_first_value(self) -> None:
        said = iter(("one", "two"))
        hook = self.hook(
            lambda r: respond(r, auditAnnotations={"a": next(said), "b/c": "x", "d e": "x"}),
            reinvocationPolicy="IfNeeded",
        )
        late = self.hook(lambda r: respond(r, **patch_of({"op": "add", "path": "/data/late", "value": "x"})))
        wanted = self.attributes()
        await self.chain(mutate=(hook, late)).admit(wanted)
        self.assertEqual(len(self.hooks.reviews), 3)
        own = {key: value for key, value in wanted.annotations.items() if key.startswith("h0.")}
        self.assertEqual(own, {"h0.example.com/a": "one"})

    async def test_a_patch_that_cannot_be_read_is_a_failed_call(self) -> None:
        def bad(review: Object) -> Object:
            return respond(review, patchType="JSONPatch", patch=base64.b64encode(b"{").decode())

        wanted = self.attributes()
        await self.chain(mutate=(self.hook(bad, failurePolicy="Ignore"),)).admit(wanted)
        note = "failed-open.mutation.webhook.admission.k8s.io/round_0_index_0"
        self.assertEqual(wanted.annotations[note], "h0.example.com")
        strict = self.chain(mutate=(self.hook(bad),))
        with self.assertRaises(StatusError) as caught:
            await strict.admit(self.attributes())
        self.assertIn("received undecodable patch in webhook response", caught.exception.message)

    async def test_what_a_patch_makes_is_read_as_the_kind(self) -> None:
        async def answer(*operations: Object) -> Object:
            hook = self.hook(lambda r: respond(r, **patch_of(*operations)), failurePolicy="Ignore")
            wanted = self.attributes()
            await self.chain(mutate=(hook,)).admit(wanted)
            assert wanted.obj is not None
            return wanted.obj

        before = await answer({"op": "test", "path": "/kind", "value": "ConfigMap"})
        self.assertEqual(await answer({"op": "add", "path": "/datum", "value": "x"}), before)
        away = [{"op": "remove", "path": path} for path in ("/kind", "/apiVersion")]
        self.assertEqual(await answer(*away), before)
        with self.assertRaises(StatusError) as caught:
            await answer({"op": "add", "path": "/data/n", "value": 1})
        with self.assertRaises(StatusError) as other:
            await answer({"op": "replace", "path": "/kind", "value": "Secret"})
        self.assertEqual(other.exception.message, "Internal error occurred: illegal base64 data at input byte 0")
        why = "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
        self.assertEqual((caught.exception.code, caught.exception.message), (500, f"Internal error occurred: {why}"))

    async def test_what_defaulting_undoes_was_a_change_all_the_same(self) -> None:
        hook = self.hook(
            lambda r: respond(r, **patch_of({"op": "remove", "path": "/spec/restartPolicy"})),
            rules=[{**RULE, "resources": ["pods"]}],
        )
        obj = {**pod(restartPolicy="Always"), "apiVersion": "v1", "kind": "Pod"}
        wanted = attributes(obj)
        await self.chain(mutate=(hook,)).admit(wanted)
        self.assertEqual(wanted.obj["spec"]["restartPolicy"], "Always")
        said = orjson.loads(wanted.annotations["mutation.webhook.admission.k8s.io/round_0_index_0"])
        self.assertTrue(said["mutated"])

    async def test_a_patch_without_operations_is_no_change(self) -> None:
        for answer in (patch_of(), {}):
            hook = self.hook(lambda r, answer=answer: respond(r, **answer), reinvocationPolicy="IfNeeded")
            wanted = self.attributes()
            await self.chain(mutate=(hook,)).admit(wanted)
            said = orjson.loads(wanted.annotations["mutation.webhook.admission.k8s.io/round_0_index_0"])
            self.assertFalse(said["mutated"])
            self.assertFalse(wanted.reinvocation.requested)
            self.assertEqual(wanted.obj, config_map())

    async def test_a_request_without_time_asks_nobody(self) -> None:
        chain = self.chain(check=(self.hook(respond),))
        late = self.attributes()
        late.deadline = reactor.seconds() - 1  # type: ignore[attr-defined]
        error = await self.refused(chain, late)
        self.assertEqual((error.code, error.reason), (504, "Timeout"))
        self.assertEqual(self.hooks.reviews, [])

    async def test_reinvocation_shows_what_later_webhooks_did(self) -> None:
        def first(review: Object) -> Object:
            seen = sorted(review["request"]["object"]["data"])
            return respond(review, **patch_of({"op": "add", "path": "/data/seen", "value": ",".join(seen)}))

        def second(review: Object) -> Object:
            return respond(review, **patch_of({"op": "add", "path": "/data/late", "value": "x"}))

        wanted = self.attributes()
        hooks = (self.hook(first, reinvocationPolicy="IfNeeded"), self.hook(second))
        await self.chain(mutate=hooks).admit(wanted)
        self.assertEqual(wanted.obj["data"]["seen"], "k,late,seen")
        self.assertEqual(len(self.hooks.reviews), 3)

    async def test_the_answer_must_be_to_this_question(self) -> None:
        chain = self.chain(check=(self.hook(lambda r: respond(r, uid="other")),))
        error = await self.refused(chain)
        self.assertIn("received invalid webhook response: expected response.uid=", error.message)
        self.assertEqual(error.code, 500)

    async def test_a_validating_webhook_may_not_patch(self) -> None:
        operation = {"op": "remove", "path": "/data"}
        chain = self.chain(check=(self.hook(lambda r: respond(r, **patch_of(operation))),))
        self.assertIn("validating webhook may not return response.patch", (await self.refused(chain)).message)

    async def test_selectors_and_rules_decide_who_is_asked(self) -> None:
        def not_me(review: Object) -> Any:
            raise AssertionError("this webhook is not concerned")

        others = (
            self.hook(not_me, namespaceSelector={"matchLabels": {"team": "y"}}),
            self.hook(not_me, objectSelector={"matchLabels": {"a": "b"}}),
            self.hook(not_me, rules=[{**RULE, "operations": ["UPDATE"]}]),
            self.hook(not_me, rules=[{**RULE, "resources": ["configmaps/status"]}]),
            self.hook(not_me, rules=[{**RULE, "scope": "Cluster"}]),
        )
        mine = self.hook(
            respond, namespaceSelector={"matchLabels": {"team": "x"}}, rules=[{**RULE, "resources": ["*"]}]
        )
        await self.chain(check=(*others, mine)).validate(self.attributes())
        self.assertEqual(len(self.hooks.reviews), 1)

    async def test_a_namespace_that_is_written_is_selected_by_the_labels_that_it_gets(self) -> None:
        rule = {**RULE, "operations": ["*"], "resources": ["namespaces", "namespaces/finalize"]}
        hook = self.hook(respond, namespaceSelector={"matchLabels": {"team": "y"}}, rules=[rule])
        chain = self.chain(check=(hook,))
        stored, moved, bare = (
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", **labels}}
            for labels in ({"labels": {"team": "x"}}, {"labels": {"team": "y"}}, {})
        )
        asked = []
        for operation, obj, old, subresource in (
            (CREATE, moved, None, ""),
            (CREATE, bare, None, ""),
            (UPDATE, moved, stored, ""),
            (UPDATE, stored, moved, ""),
            (UPDATE, moved, moved, "finalize"),  # as it is stored
            (DELETE, None, moved, ""),
        ):
            self.hooks.reviews.clear()
            what: dict[str, Any] = {"resource": "namespaces", "kind": "Namespace", "subresource": subresource}
            await chain.validate(attributes(obj, old, operation=operation, namespace="n", **what))
            asked.append(len(self.hooks.reviews))
        self.assertEqual(asked, [1, 0, 1, 0, 0, 0])

    async def test_configurations_are_never_subject_to_webhooks(self) -> None:
        rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
        chain = self.chain(check=(self.hook(lambda r: respond(r, allowed=False), rules=[rule]),))
        wanted = attributes(
            {"metadata": {"name": "v"}}, group="admissionregistration.k8s.io", kind="ValidatingWebhookConfiguration",
            resource="validatingwebhookconfigurations", namespace="",
        )  # fmt: skip
        await chain.validate(wanted)
        self.assertEqual(self.hooks.reviews, [])

    async def test_conditions_keep_requests_from_a_webhook(self) -> None:
        never = {"name": "c", "expression": "object.metadata.name == 'other'"}
        always = {"name": "d", "expression": "object.metadata.name == 'a'"}
        registry = CollectorRegistry()
        self.initializer.meter = Meter(registry)
        excluded, asked = (self.hook(respond, matchConditions=[always, *more]) for more in ([never], []))
        await self.chain(check=(excluded, asked)).validate(self.attributes())
        self.assertEqual(len(self.hooks.reviews), 1)
        exclusions = [
            registry.get_sample_value(
                "apiserver_admission_match_condition_exclusions_total",
                {"name": hook["name"], "kind": "webhook", "type": "validating", "operation": "CREATE"},
            )
            for hook in (excluded, asked)
        ]
        self.assertEqual(exclusions, [1.0, None])

    async def test_dry_runs_need_a_webhook_without_side_effects(self) -> None:
        chain = self.chain(check=(self.hook(respond, sideEffects="Some"),))
        error = await self.refused(chain, self.attributes(dry_run=True))
        self.assertIsInstance(error, BadRequest)
        self.assertEqual(error.message, 'admission webhook "h0.example.com" does not support dry run')

    async def test_what_a_webhook_does_not_understand_is_not_sent(self) -> None:
        for versions in (["v2"], []):
            chain = self.chain(check=(self.hook(respond, admissionReviewVersions=versions),))
            error = await self.refused(chain)
            self.assertIn(
                "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)",
                error.message,
            )
        self.assertEqual(self.hooks.reviews, [])

    async def test_a_patch_is_a_json_patch(self) -> None:
        merge = {**patch_of({"op": "remove", "path": "/data"}), "patchType": "Merge"}
        chain = self.chain(mutate=(self.hook(lambda r: respond(r, **merge)),))
        with self.assertRaises(StatusError) as caught:
            await chain.admit(self.attributes())
        self.assertIn('unsupported patch type "Merge"', caught.exception.message)

    async def test_conditions_that_fail(self) -> None:
        """One that is false decides, whatever the others; else the failure policy does."""
        wrong = {"name": "a", "expression": "object.data.x == 'y'"}
        broken, never = {"name": "b", "expression": "1 +"}, {"name": "c", "expression": "object.metadata.name == 'x'"}
        error = "expression 'object.data.x == 'y'' resulted in error: no such key: x"
        for policy in ("Fail", "Ignore"):
            for conditions, why in (([wrong], error), ([wrong, broken], f"[{error}, "), ([wrong, never], ""),
                                    ([broken, never], "")):  # fmt: skip
                hook = self.hook(respond, matchConditions=conditions, failurePolicy=policy)
                chain = self.chain(check=(hook,))
                if policy == "Fail" and why:
                    refused = await self.refused(chain)
                    self.assertEqual(refused.code, 403)
                    self.assertIn(f'configmaps "a" is forbidden: {why}', refused.message)
                else:
                    await chain.validate(self.attributes())
        self.assertEqual(self.hooks.reviews, [])

    async def test_what_is_deleted_is_not_patched(self) -> None:
        rule = {**RULE, "operations": ["DELETE"]}
        hook = self.hook(lambda r: respond(r, **patch_of({"op": "remove", "path": "/data"})), rules=[rule])
        asked = attributes(None, config_map(), operation=DELETE, resource="configmaps", kind="ConfigMap")
        with self.assertRaises(StatusError) as caught:
            await self.chain(mutate=(hook,)).admit(asked)
        self.assertEqual(
            caught.exception.message,
            'Internal error occurred: admission webhook "h0.example.com" attempted to modify the object, which is not '
            "supported for this operation",
        )

    async def test_a_patch_that_does_not_apply(self) -> None:
        for policy in ("Fail", "Ignore"):
            answer = patch_of({"op": "remove", "path": "/none"})
            hook = self.hook(lambda r, answer=answer: respond(r, **answer), failurePolicy=policy)
            with self.assertRaises(StatusError) as caught:
                await self.chain(mutate=(hook,)).admit(self.attributes())
            self.assertIn("Internal error occurred: error in remove for path: '/none': ", caught.exception.message)

    async def test_labels_of_a_namespace_that_is_missing(self) -> None:
        self.client.resource("", "namespaces").objects.clear()
        hook = self.hook(respond, namespaceSelector={"matchLabels": {"team": "x"}})
        error = await self.refused(self.chain(check=(hook,)))
        self.assertEqual((error.code, error.message), (404, 'namespaces "n" not found'))

    async def test_a_response_of_other_types(self) -> None:
        chain = self.chain(check=(self.hook(lambda r: respond(r, warnings="careful")),))
        self.assertIn("failed to call webhook: json: cannot unmarshal", (await self.refused(chain)).message)

    async def test_a_configuration_without_an_address(self) -> None:
        """Only what a store had before it was validated can be so."""
        for config, why in (
            ({}, "webhook configuration must have either service or URL"),
            ({"url": "https://[x"}, "unable to parse the webhook's URL: "),
            ({"url": "https://127.0.0.1:x/"}, "unable to parse the webhook's URL: "),
        ):
            error = await self.refused(self.chain(check=(self.hook(respond, clientConfig=config),)))
            self.assertIn(f"could not get REST client: {why}", error.message)


PATCH = base64.b64encode(b"[]").decode()
NOT_ONE = "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got "


def answer(version: str = "v1", mutating: bool = True, head: Object | None = None, **response: Any) -> Answer:
    told = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", **(head or {})}
    return read_answer({**told, "response": {"uid": "u", "allowed": True, **response}}, "u", version, mutating)


@pytest.mark.parametrize(
    ("response", "mutating", "why"),
    [
        ({"uid": "x"}, True, 'expected response.uid="u", got "x"'),
        ({"uid": None}, False, 'expected response.uid="u", got ""'),
        ({"head": {"apiVersion": None, "kind": None}}, True, f"{NOT_ONE}/, Kind="),
        ({"head": {"kind": ""}}, True, f"{NOT_ONE}admission.k8s.io/v1, Kind="),
        ({"patch": PATCH}, False, "validating webhook may not return response.patch"),
        ({"patchType": "JSONPatch"}, False, "validating webhook may not return response.patchType"),
        ({"patchType": ""}, False, "validating webhook may not return response.patchType"),
        ({"patch": PATCH}, True, "webhook returned response.patch but not response.patchType"),
        ({"patchType": "JSONPatch"}, True, "webhook returned response.patchType but not response.patch"),
        ({"patch": "", "patchType": "JSONPatch"}, True, "webhook returned response.patchType but not response.patch"),
        ({"patch": PATCH, "patchType": ""}, True, 'webhook returned invalid response.patchType of ""'),
    ],
)  # fmt: skip
def test_an_answer_of_v1_is_checked(response: Object, mutating: bool, why: str) -> None:
    with pytest.raises(BadReview) as caught:
        answer(mutating=mutating, **response)
    assert str(caught.value) == why
    old = {**response, "head": {"apiVersion": "admission.k8s.io/v1beta1"}}
    assert answer("v1beta1", mutating, **old).patch == (b"[]" if mutating and response.get("patch") else b"")


def test_what_answers_say() -> None:
    assert answer().allowed and not answer(allowed=False).allowed and not answer(allowed=None).allowed
    whole = answer(
        patch=PATCH, patchType="JSONPatch", warnings=["w"], auditAnnotations={"a": "b"}, status={"code": 418}
    )
    assert (whole.patch, whole.patch_type) == (b"[]", "JSONPatch")
    assert (whole.warnings, whole.annotations, whole.status) == (["w"], {"a": "b"}, {"code": 418})
    assert answer(patch="", mutating=False).patch == b""
    head = {"apiVersion": "admission.k8s.io/v1beta1"}
    assert answer(patch=[91, 93], patchType="JSONPatch").patch == b"[]"
    old = answer("v1beta1", head=head, patch=PATCH)
    assert (old.patch, old.patch_type) == (b"[]", "JSONPatch")
    assert answer("v1beta1", mutating=False, head=head, patch=PATCH).patch_type == ""


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
@pytest.mark.parametrize("review", [{}, {"response": None}])
def test_an_answer_has_a_response(version: str, review: Object) -> None:
    with pytest.raises(BadReview, match=r"^webhook response was absent$"):
        read_answer(review, "u", version, True)


@pytest.mark.parametrize("patch", ["%", "abc", "YQ==x"])
def test_a_patch_is_base64(patch: str) -> None:
    with pytest.raises(Undecodable, match=r"^illegal base64 data at input byte [01234]$"):
        answer(patch=patch, patchType="JSONPatch")


@pytest.mark.parametrize(
    ("response", "found", "where"),
    [
        ({"warnings": "w"}, "string", "AdmissionResponse.response.warnings of type []string"),
        ({"warnings": [1]}, "number", "AdmissionResponse.response.warnings of type string"),
        ({"uid": 1}, "number", "AdmissionResponse.response.uid of type types.UID"),
        ({"patch": {}}, "object", "AdmissionResponse.response.patch of type []uint8"),
        ({"patch": [256]}, "number", "AdmissionResponse.response.patch of type uint8"),
        ({"status": {"metadata": {"continue": 1}}}, "number", "ListMeta.response.status.metadata.continue of type string"),
        ({"status": []}, "array", "AdmissionResponse.response.status of type v1.Status"),
        ({"status": {"code": "x"}}, "string", "Status.response.status.code of type int32"),
        ({"status": {"details": {"causes": {}}}}, "object",
         "StatusDetails.response.status.details.causes of type []v1.StatusCause"),
    ],
)  # fmt: skip
def test_an_error_of_a_type_names_the_innermost_struct(response: Object, found: str, where: str) -> None:
    with pytest.raises(Undecodable) as caught:
        answer(**response)
    assert str(caught.value) == f"json: cannot unmarshal {found} into Go struct field {where}"
    with pytest.raises(Undecodable) as other:  # its types count before its version
        answer("v1beta1", **response)
    assert str(other.value) == str(caught.value)


UNREGISTERED = 'is registered for version "{}" in scheme "k8s.io/apiserver/pkg/util/webhook/client.go:71"'


@pytest.mark.parametrize(
    ("version", "head", "why"),
    [
        ("v1", ("admission.k8s.io/v1beta1", "AdmissionReview"),
         "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion"),
        ("v1beta1", ("admission.k8s.io/v1", None),
         "converting (v1.AdmissionReview) to (v1beta1.AdmissionReview): unknown conversion"),
        ("v1", ("v1", "Status"), "converting (v1.Status) to (v1.AdmissionReview): unknown conversion"),
        ("v1", ("admission.k8s.io/v1", "Status"), 'no kind "Status" ' + UNREGISTERED.format("admission.k8s.io/v1")),
        ("v1", ("v1", "Pod"), 'no kind "Pod" ' + UNREGISTERED.format("v1")),
        ("v1", ("admission.k8s.io/v2", None), 'no kind "AdmissionReview" ' + UNREGISTERED.format("admission.k8s.io/v2")),
        ("v1", (1, None), "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field "
         ".apiVersion of type string"),
    ],
)  # fmt: skip
def test_an_answer_of_another_kind_is_not_decoded(version: str, head: tuple[Any, Any], why: str) -> None:
    with pytest.raises(Undecodable) as caught:
        answer(version, head=dict(zip(("apiVersion", "kind"), head, strict=True)))
    assert str(caught.value) == why
