"""Admission policies: expressions that refuse, warn, annotate and change."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import orjson
import pytest
from twisted.internet.defer import Deferred

from kapi.admission.interface import Attributes, Reinvocation
from kapi.admission.policy import mutating, validating
from kapi.authorization import interface as authorization
from kapi.machinery.gvk import GroupResource, GroupVersionResource
from kapi.machinery.status import StatusError, not_found
from kapi.machinery.tree import Object
from kapi.resources.catalogue import BUILT_IN
from kapi.resources.definition import Resource
from kapi.schema.structural.convert import type_of
from kapi.schema.structural.structure import Schema
from tests.admission.fakes import FakeClient, attributes, finish, initializer

GROUP = "admissionregistration.k8s.io"
RULES = {
    "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]
}


_CONFIGURATIONS = ("admissionpolicies", "admissionpolicybindings", "webhookconfigurations")
#: of the resources that only configure admission
KINDS = {row.plural: row.kind for row in BUILT_IN if row.group == GROUP}


def config_map(name: str = "a", **data: str) -> Object:
    obj: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n"}}
    return {**obj, "data": data} if data else obj


def request(obj: Object) -> Attributes:
    return attributes(obj, resource="configmaps", kind="ConfigMap")


def cluster(kind: str, spec: Object, binding: Object | None = None) -> FakeClient:
    client = FakeClient()
    client.put("", "namespaces", {"metadata": {"name": "n", "labels": {"tier": "gold"}}})
    policy = {"metadata": {"name": "p"}, "spec": {"matchConstraints": RULES, **spec}}
    client.put(GROUP, f"{kind}admissionpolicies", policy)
    bound = {"policyName": "p", **(binding or {})}
    client.put(GROUP, f"{kind}admissionpolicybindings", {"metadata": {"name": "b"}, "spec": bound})
    return client


NO_JSON = "JSONPath valueExpression evaluated to a type that could not marshal to JSON: "
UNTYPED = "error applying patch: failed to convert patch object to typed object: "


class TestValidating:
    def check(
        self, spec: Object, obj: Object, *, binding: Object | None = None, client: FakeClient | None = None
    ) -> Any:
        client = client or cluster("validating", spec, {"validationActions": ["Deny"], **(binding or {})})
        asked = request(obj)
        finish(validating.ValidatingAdmissionPolicy(initializer(client)).validate(asked))
        return asked

    def refusal(self, spec: Object, obj: Object, **more: Any) -> StatusError:
        with pytest.raises(StatusError) as caught:
            self.check(spec, obj, **more)
        return caught.value

    @pytest.mark.parametrize(("resource", "refuses"), [(None, True), ("configmaps", True), ("pods", False)], ids=str)
    def test_a_binding_may_match_less_than_its_policy(self, resource: str | None, refuses: bool) -> None:
        binding: Object = {}
        if resource is not None:
            (rule,) = RULES["resourceRules"]
            binding["matchResources"] = {"resourceRules": [{**rule, "resources": [resource]}]}
        spec = {"validations": [{"expression": "false"}]}
        if refuses:
            self.refusal(spec, config_map(), binding=binding)
        else:
            self.check(spec, config_map(), binding=binding)

    @pytest.mark.parametrize(
        ("expression", "message"),
        [
            ("'  no  '", "no"), ("'a\\nb'", "fixed"), ("'a' + '\\n'", "a"), ("''", "fixed"), ("'  '", "fixed"),
            (f"'{'a' * 5120}'", "a" * 5120), (f"'{'a' * 5121}'", "fixed"), (f"'{'é' * 2561}'", "fixed"),
        ],
    )  # fmt: skip
    def test_a_message_of_an_expression_is_short_and_one_line(self, expression: str, message: str) -> None:
        spec = {"validations": [{"expression": "false", "messageExpression": expression, "message": "fixed"}]}
        assert self.refusal(spec, config_map()).message.endswith(f"denied request: {message}")

    @pytest.mark.parametrize(
        ("reason", "code"),
        [
            ("Unauthorized", 401), ("Forbidden", 403), ("RequestEntityTooLarge", 413), ("Invalid", 422), (None, 422),
            ("Odd", 422),
        ],
    )  # fmt: skip
    def test_a_reason_has_its_code(self, reason: str | None, code: int) -> None:
        error = self.refusal({"validations": [{"expression": "false", "reason": reason}]}, config_map())
        assert (error.code, error.reason) == (code, reason or "Invalid")

    @pytest.mark.parametrize(
        ("validation", "message"),
        [
            ({"expression": " false "}, "failed expression: false"), ({"expression": "false", "message": " m "}, "m"),
            ({"expression": "false", "messageExpression": "object.data.x"}, "failed expression: false"),
            ({"expression": "false", "messageExpression": "object.data.x", "message": "m"}, "m"),
        ],
    )  # fmt: skip
    def test_what_a_validation_says_without_a_message_of_an_expression(self, validation: Object, message: str) -> None:
        assert self.refusal({"validations": [validation]}, config_map()).message.endswith(f"denied request: {message}")

    @pytest.mark.parametrize("actions", [["Deny"], ["Warn"], ["Audit"], ["Warn", "Audit"], ["Deny", "Audit"], []])
    def test_each_action_of_a_binding(self, actions: list[str]) -> None:
        client = cluster("validating", {"validations": [{"expression": "true"}, {"expression": "false"}]},
                         {"validationActions": actions})  # fmt: skip
        asked, refused = request(config_map()), False
        try:
            finish(validating.ValidatingAdmissionPolicy(initializer(client)).validate(asked))
        except StatusError:
            refused = True
        said = {
            "message": "failed expression: false", "policy": "p", "binding": "b", "expressionIndex": 1,
            "validationActions": actions,
        }  # fmt: skip
        assert refused is ("Deny" in actions)
        text = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': failed expression: false"
        assert asked.warnings == ([text] if "Warn" in actions else [])
        found = [orjson.loads(text) for text in asked.annotations.values()]
        assert found == ([[said]] if "Audit" in actions else [])

    @pytest.mark.parametrize(
        ("value", "told"),
        [
            ("' a '", "a"), ("''", None), ("'  '", None), ("null", None), (f"'{'a' * 10240}'", "a" * 10240),
            (f"'{'a' * 10241}'", "a" * 10240), (f"'{'é' * 5120}é'", "é" * 5120), (f"'a{'é' * 5120}'", "a" + "é" * 5119),
        ],
    )  # fmt: skip
    def test_an_annotation_is_cut_after_whole_characters(self, value: str, told: str | None) -> None:
        asked = self.check({"auditAnnotations": [{"key": "k", "valueExpression": value}]}, config_map())
        assert asked.annotations == ({} if told is None else {"p/k": told})

    def test_a_false_expression_refuses(self) -> None:
        spec = {"validations": [{"expression": "has(object.data)", "message": "no data"}]}
        self.check(spec, config_map(k="v"))
        error = self.refusal(spec, config_map())
        told = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no data"
        assert error.message == f'configmaps "a" is forbidden: {told}'
        assert (error.code, error.reason) == (422, "Invalid")
        assert error.details is not None and error.details["causes"] == [{"message": told}]

    @pytest.mark.parametrize(("policy", "refused"), [("Fail", True), ("Ignore", False)])
    def test_failures(self, policy: str, refused: bool) -> None:
        spec = {"failurePolicy": policy, "validations": [{"expression": "object.data.x == 'y'"}]}
        if refused:
            assert "resulted in error: no such key: data" in self.refusal(spec, config_map()).message
        else:
            self.check(spec, config_map())

    def test_the_request_names_its_kind_and_resource(self) -> None:
        kind = "request.kind.group == '' && request.kind.version == 'v1' && request.kind.kind == 'ConfigMap'"
        resource = "request.resource.version == 'v1' && request.resource.resource == 'configmaps'"
        self.check({"validations": [{"expression": f"{kind} && {resource}"}]}, config_map())

    def test_the_request_has_no_empty_texts(self) -> None:
        """As in JSON, where the fields of an AdmissionRequest are left out."""
        absent = ("subResource", "requestSubResource", "userInfo.extra", "userInfo.uid")
        present = ("name", "namespace", "kind.group", "resource.group", "userInfo.username", "dryRun")
        texts = [f"!has(request.{name})" for name in absent] + [f"has(request.{name})" for name in present]
        self.check({"validations": [{"expression": text} for text in texts]}, config_map())
        error = self.refusal({"validations": [{"expression": "request.subResource == ''"}]}, config_map())
        assert "no such key: subResource" in error.message

    def test_conditions_keep_a_policy_out(self) -> None:
        spec = {
            "matchConditions": [{"name": "c", "expression": "object.metadata.name == 'other'"}],
            "validations": [{"expression": "false"}],
        }
        self.check(spec, config_map())
        self.refusal(spec, config_map("other"))

    def test_conditions_that_fail(self) -> None:
        """One that is false decides, whatever the others; else the failure policy does."""
        wrong, other = ({"name": name, "expression": f"object.data.{name} == 'y'"} for name in "ab")
        never = {"name": "c", "expression": "object.metadata.name == 'x'"}
        said = [f"expression 'object.data.{name} == 'y'' resulted in error: no such key: {name}" for name in "ab"]
        for conditions, why in (
            ([wrong], said[0]), ([wrong, other], f"[{', '.join(said)}]"), ([wrong, never], ""), ([never, wrong], ""),
        ):  # fmt: skip
            for policy in ("Fail", "Ignore"):
                spec = {
                    "failurePolicy": policy,
                    "matchConditions": conditions,
                    "validations": [{"expression": "false"}],
                }
                if why and policy == "Fail":
                    assert self.refusal(spec, config_map(k="v")).message.endswith(f"denied request: {why}")
                else:
                    self.check(spec, config_map(k="v"))

    def test_an_expression_that_does_not_compile(self) -> None:
        """Only a store of another version has one."""
        spec = {"validations": [{"expression": "object.metadata.name + 1 ="}]}
        assert "denied request: compilation error: " in self.refusal(spec, config_map()).message
        self.check({**spec, "failurePolicy": "Ignore"}, config_map())

    def test_a_namespace_that_is_missing(self) -> None:
        client = cluster("validating", {"validations": [{"expression": "true"}]}, {"validationActions": ["Deny"]})
        client.resource("", "namespaces").objects.clear()
        error = self.refusal({}, config_map(), client=client)
        assert (error.code, error.message) == (404, 'namespaces "n" not found')

    def test_parameters_of_a_kind_that_is_not_served_yet(self) -> None:
        spec = {"paramKind": {"apiVersion": "x.io/v1", "kind": "Limit"}, "validations": [{"expression": "true"}]}
        client = cluster("validating", spec, {"validationActions": ["Deny"], "paramRef": {"name": "l"}})
        names = {"kind": "Limit", "plural": "limits"}
        definition = {"group": "x.io", "names": names, "versions": [{"name": "v1", "served": True}]}
        client.put("apiextensions.k8s.io", "customresourcedefinitions", {"metadata": {"name": "d"}, "spec": definition})
        known = client.resource

        def resource(group: str, plural: str) -> Any:
            if group == "x.io":
                raise not_found(GroupResource(group, plural), "")
            return known(group, plural)

        client.resource = resource  # type: ignore[method-assign]
        why = "denied request: failed to configure binding: paramKind kind `Limit` not known"
        assert self.refusal(spec, config_map(), client=client).message.endswith(why)

    def test_variables_and_validations_have_one_budget(self) -> None:
        dear = "object.list.all(a, !object.text.contains('z'))"
        obj = {**config_map(), "list": list(range(80)), "text": "x" * 100_000}
        many = [{"name": f"v{number}", "expression": dear} for number in range(14)]
        out = "validation failed due to running out of cost budget, no further validation rules will be run"
        for count, why in ((2, ""), (12, f"denied request: {out}"), (14, f'variable "v12" fails to evaluate: {out}')):
            used = " && ".join([*(f"variables.v{number}" for number in range(count)), dear])
            spec = {"variables": many, "validations": [{"expression": used}]}
            if why:
                assert self.refusal(spec, obj).message.endswith(why)
            else:
                self.check(spec, obj)

    def test_an_error_ends_no_other_validation_unless_the_budget_is_used_up(self) -> None:
        dear = "object.list.all(a, !object.text.contains('z'))"
        obj = {**config_map(), "list": list(range(80)), "text": "x" * 100_000}
        out = "validation failed due to running out of cost budget, no further validation rules will be run"
        many = [{"name": f"v{number}", "expression": dear} for number in range(12)]
        for expression, told in (
            ("object.none == 1", ["m", "no such key: none", "n"]),
            ("variables.v0 && variables.v1", ["m", "n"]),
            (" && ".join([*(f"variables.v{number}" for number in range(12)), dear]), [out]),
        ):
            expressions = {"m": "false", "other": expression, "n": "false"}
            validations = [{"expression": text, "message": name} for name, text in expressions.items()]
            spec = {"variables": many, "validations": validations}
            asked = self.check(spec, obj, binding={"validationActions": ["Warn"]})
            assert [warning.partition("with binding 'b': ")[2] for warning in asked.warnings] == [
                text if text in ("m", "n", out) else f"expression '{expression}' resulted in error: {text}"
                for text in told
            ]

    def test_warn_and_audit(self) -> None:
        spec = {
            "validations": [{"expression": "false", "message": "m"}],
            "auditAnnotations": [{"key": "k", "valueExpression": "'name ' + object.metadata.name"}],
        }
        asked = self.check(spec, config_map(), binding={"validationActions": ["Warn", "Audit"]})
        assert asked.warnings == ["Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': m"]
        assert asked.annotations["p/k"] == "name a"
        assert '"expressionIndex":0' in asked.annotations["validation.policy.admission.k8s.io/validation_failure"]

    def test_an_error_in_a_match_condition_has_the_actions_of_its_binding(self) -> None:
        spec = {
            "matchConditions": [{"name": "c", "expression": "object.none == 1"}],
            "validations": [{"expression": "true"}],
        }
        asked = self.check(spec, config_map(), binding={"validationActions": ["Warn", "Audit"]})
        assert len(asked.warnings) == 1 and "no such key: none" in asked.warnings[0]
        assert "no such key: none" in asked.annotations["validation.policy.admission.k8s.io/validation_failure"]
        assert "no such key: none" in self.refusal(spec, config_map()).message

    def test_what_several_validations_say_is_warned_of_once(self) -> None:
        spec = {"validations": [{"expression": "false", "message": text} for text in ("m", "n", "m")]}
        asked = self.check(spec, config_map(), binding={"validationActions": ["Warn"]})
        assert [text.rpartition(": ")[2] for text in asked.warnings] == ["m", "n"]

    def test_variables_and_the_namespace(self) -> None:
        spec = {
            "variables": [
                {"name": "tier", "expression": "namespaceObject.metadata.labels['tier']"},
                {"name": "shout", "expression": "variables.tier + '!'"},
            ],
            "validations": [{"expression": "variables.shout == ''", "messageExpression": "'is ' + variables.shout"}],
        }
        assert self.refusal(spec, config_map()).message.endswith("is gold!")

    def test_an_error_in_a_variable_is_told_without_the_expression_of_the_variable(self) -> None:
        spec = {
            "variables": [
                {"name": "n", "expression": "object.data.size()"},
                {"name": "big", "expression": "variables.n > 0"},
            ],
            "validations": [{"expression": "variables.big"}],
        }
        why = (
            'composited variable "big" fails to evaluate: composited variable "n" fails to evaluate: no such key: data'
        )
        assert self.refusal(spec, config_map()).message.endswith(f"expression 'variables.big' resulted in error: {why}")

    def test_parameters_that_are_not_there_have_no_fields(self) -> None:
        spec = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}
        told = "expression 'params.data.x == 1' resulted in error: no such key: data"
        error = self.refusal({**spec, "validations": [{"expression": "params.data.x == 1"}]}, config_map())
        assert error.message.endswith(told)
        error = self.refusal({**spec, "validations": [{"expression": "has(params.data)"}]}, config_map())
        assert error.message.endswith("failed expression: has(params.data)")

    @pytest.mark.parametrize(
        ("group", "plural"),
        [
            ("authentication.k8s.io", "selfsubjectreviews"),
            ("authentication.k8s.io", "tokenreviews"),
            ("authorization.k8s.io", "localsubjectaccessreviews"),
            ("authorization.k8s.io", "selfsubjectaccessreviews"),
            ("authorization.k8s.io", "selfsubjectrulesreviews"),
            ("authorization.k8s.io", "subjectaccessreviews"),
        ],
    )
    def test_questions_about_users_are_never_seen(self, group: str, plural: str) -> None:
        assert not self.sees(group, plural)
        assert self.sees(group, "others")

    def test_webhook_configurations_are_seen_and_policies_are_not(self) -> None:
        plurals = [f"{kind}{rest}" for kind in ("mutating", "validating") for rest in _CONFIGURATIONS]
        assert [plural for plural in plurals if self.sees(GROUP, plural)] == [
            "mutatingwebhookconfigurations",
            "validatingwebhookconfigurations",
        ]

    def sees(self, group: str, plural: str) -> bool:
        """Whether a policy for everything sees a write of such an object."""
        everything = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
        spec = {"matchConstraints": {"resourceRules": [everything]}, "validations": [{"expression": "false"}]}
        client = cluster("validating", spec, {"validationActions": ["Deny"]})
        plugin = validating.ValidatingAdmissionPolicy(initializer(client))
        kind = KINDS.get(plural, "Question")
        obj = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {}}
        try:
            finish(plugin.validate(attributes(obj, group=group, resource=plural, kind=kind)))
        except StatusError:
            return True
        return False

    def test_a_service_account_is_in_the_groups_of_accounts_only(self) -> None:
        client = cluster(
            "validating",
            {"validations": [{"expression": "authorizer.serviceAccount('n', 'a').path('/x').check('get').allowed()"}]},
            {"validationActions": ["Deny"]},
        )
        asked: list[tuple[str, ...]] = []

        class Noting:
            def authorize(self, attributes: authorization.Attributes) -> authorization.Verdict:
                asked.append(tuple(attributes.user.groups))
                return authorization.Verdict(authorization.Decision.ALLOW)

        made = initializer(client)
        made.authorizer = Noting()
        finish(validating.ValidatingAdmissionPolicy(made).validate(request(config_map())))
        assert asked == [("system:serviceaccounts", "system:serviceaccounts:n")]

    def test_an_authorization_check_of_several_policies_is_made_once(self) -> None:
        check = "authorizer.group('').resource('pods').namespace('n').check('list').allowed()"
        client = cluster("validating", {"validations": [{"expression": check}]}, {"validationActions": ["Deny"]})
        other = {"matchConstraints": RULES, "validations": [{"expression": check}, {"expression": check}]}
        client.put(GROUP, "validatingadmissionpolicies", {"metadata": {"name": "q"}, "spec": other})
        bound = {"policyName": "q", "validationActions": ["Deny"]}
        client.put(GROUP, "validatingadmissionpolicybindings", {"metadata": {"name": "c"}, "spec": bound})
        asked: list[str] = []

        class Counting:
            def authorize(self, attributes: authorization.Attributes) -> authorization.Verdict:
                asked.append(attributes.verb)
                return authorization.Verdict(authorization.Decision.ALLOW)

        made = initializer(client)
        made.authorizer = Counting()
        finish(validating.ValidatingAdmissionPolicy(made).validate(request(config_map())))
        assert asked == ["list"]

    def test_a_check_is_known_by_what_its_selectors_ask_for(self) -> None:
        pods = "authorizer.group('').resource('pods')"
        expressions = [
            f"{pods}{selector}.check('list').allowed()"
            for selector in (
                ".labelSelector('a=b,c in (d,e)')",
                ".labelSelector('c in (e,d),a=b')",
                ".fieldSelector('x=1,y=2')",
                ".fieldSelector('y=2,x=1')",
                ".labelSelector('a=b,c in (d,e)').fieldSelector('x=1,y=2')",
                "",
                ".labelSelector('((')",  # like none
            )
        ]
        spec = {"validations": [{"expression": expression} for expression in expressions]}
        asked: list[tuple[bool, bool]] = []

        class Counting:
            def authorize(self, attributes: authorization.Attributes) -> authorization.Verdict:
                asked.append((bool(attributes.label_requirements), bool(attributes.field_requirements)))
                return authorization.Verdict(authorization.Decision.ALLOW)

        made = initializer(cluster("validating", spec, {"validationActions": ["Deny"]}))
        made.authorizer = Counting()
        finish(validating.ValidatingAdmissionPolicy(made).validate(request(config_map())))
        assert asked == [(True, False), (False, True), (True, True), (False, False)]

    def test_an_authorizer_that_has_to_wait(self) -> None:
        check = "authorizer.group('').resource('pods').check('list').allowed() && authorizer.path('/x').check('get').allowed()"
        client = cluster("validating", {"validations": [{"expression": check}]}, {"validationActions": ["Deny"]})
        waiting: list[Deferred[authorization.Verdict]] = []

        class Slow:
            async def authorize(self, attributes: authorization.Attributes) -> authorization.Verdict:
                waiting.append(Deferred())
                return await waiting[-1]

        made = initializer(client)
        made.authorizer = Slow()
        allow, no_opinion = authorization.Decision.ALLOW, authorization.Decision.NO_OPINION
        for last, message in ((allow, ""), (no_opinion, f"failed expression: {check}")):
            waiting.clear()
            answer = validating.ValidatingAdmissionPolicy(made).validate(request(config_map()))
            found: list[Any] = []
            Deferred.fromCoroutine(answer).addBoth(found.append)  # type: ignore[arg-type]  # it is a coroutine
            for number, decision in ((1, allow), (2, last)):
                assert len(waiting) == number and not found
                waiting[-1].callback(authorization.Verdict(decision))
            assert (found[0] is None) is not bool(message)
            assert not message or found[0].value.message.endswith(message)

    def test_params(self) -> None:
        spec = {
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "validations": [{"expression": "object.metadata.name.size() < int(params.data.max)"}],
        }
        ref = {"paramRef": {"name": "limit", "namespace": "n", "parameterNotFoundAction": "Deny"}}
        assert "no params found for policy binding" in self.refusal(spec, config_map(), binding=ref).message
        client = cluster("validating", spec, {"validationActions": ["Deny"], **ref})
        client.put("", "configmaps", config_map("limit", max="3"))
        self.check(spec, config_map("ab"), client=client)
        self.refusal(spec, config_map("abc"), client=client)

    @pytest.mark.parametrize(
        ("kind", "ref", "why"),
        [
            ("v1/Odd", {"name": "x"}, "failed to find resource referenced by paramKind: '/v1, Kind=Odd'"),
            ("x.io/v1/Thing", {"name": "x"}, "failed to find resource referenced by paramKind: 'x.io/v1, Kind=Thing'"),
            ("v1/Node", {"name": "x", "namespace": "n"},
             "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"),
            ("v1/ConfigMap", {}, "one of name or selector must be provided"),
            ("v1/ConfigMap", {"namespace": "n"}, "one of name or selector must be provided"),
            ("v1/ConfigMap", {"name": "x", "parameterNotFoundAction": "Deny"},
             "no params found for policy binding with `Deny` parameterNotFoundAction"),
            ("v1/ConfigMap", {"selector": {"matchLabels": {"a": "x"}}, "parameterNotFoundAction": "Deny"},
             "no params found for policy binding with `Deny` parameterNotFoundAction"),
            ("v1/ConfigMap", {"name": "limit", "namespace": "m", "parameterNotFoundAction": "Deny"},
             "no params found for policy binding with `Deny` parameterNotFoundAction"),
            ("v1/ConfigMap", {"name": "x", "parameterNotFoundAction": "Allow"}, ""),
            ("v1/ConfigMap", {"selector": {"matchLabels": {"a": "x"}}}, ""),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("policy", ["Fail", "Ignore"])
    def test_parameters_that_cannot_be_had(self, policy: str, kind: str, ref: Object, why: str) -> None:
        version, _, name = kind.rpartition("/")
        spec = {"failurePolicy": policy, "paramKind": {"apiVersion": version, "kind": name}}
        spec["validations"] = [{"expression": "false"}]
        binding = {"validationActions": ["Deny"], "paramRef": ref}
        client = cluster("validating", spec, binding)
        client.put("", "configmaps", {**config_map("limit"), "metadata": {"name": "limit", "namespace": "n"}})
        if not why or policy == "Ignore":
            self.check(spec, config_map(), client=client)
            return
        error = self.refusal(spec, config_map(), client=client)
        binding, what = ("", "policy") if why.startswith("failed to find") else (" with binding 'b'", "binding")
        text = f"ValidatingAdmissionPolicy 'p'{binding} denied request: failed to configure {what}: {why}"
        assert error.message == f'configmaps "a" is forbidden: {text}'

    def test_what_has_no_namespace_has_no_parameters_of_its_namespace(self) -> None:
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["nodes"]}
        spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "params.data.ok == 'y'"}]}
        spec["paramKind"] = {"apiVersion": "v1", "kind": "ConfigMap"}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "x"}}
        for ref, why in (
            (
                {"name": "limit"},
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources",
            ),
            ({"name": "limit", "namespace": "n"}, ""),
        ):
            client = cluster("validating", spec, {"validationActions": ["Deny"], "paramRef": ref})
            client.put("", "configmaps", config_map("limit", ok="y"))
            asked = attributes(node, resource="nodes", kind="Node", namespace="")
            plugin = validating.ValidatingAdmissionPolicy(initializer(client))
            if why:
                with pytest.raises(StatusError, match=why):
                    finish(plugin.validate(asked))
            else:
                finish(plugin.validate(asked))

    def test_a_namespace_has_the_parameters_of_its_own_name(self) -> None:
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["namespaces"]}
        spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "params.data.ok == 'y'"}]}
        spec["paramKind"] = {"apiVersion": "v1", "kind": "ConfigMap"}
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}
        client = cluster("validating", spec, {"validationActions": ["Deny"], "paramRef": {"name": "limit"}})
        client.put("", "configmaps", config_map("limit", ok="n"))
        plugin = validating.ValidatingAdmissionPolicy(initializer(client))
        asked = attributes(space, resource="namespaces", kind="Namespace", namespace="")
        with pytest.raises(StatusError, match="failed expression"):
            finish(plugin.validate(asked))

    def test_audit_annotations_have_no_authorizer(self) -> None:
        """As upstream; validations have one."""
        spec: Object = {
            "validations": [{"expression": "true"}],
            "auditAnnotations": [
                {"key": "k", "valueExpression": "string(authorizer.path('/x').check('get').allowed())"}
            ],
        }
        assert self.refusal(spec, config_map()).message.endswith("no such attribute(s): authorizer")

    def test_conditions_see_no_namespace(self) -> None:
        """As upstream; validations see it."""
        spec: Object = {
            "matchConditions": [{"name": "c", "expression": "namespaceObject == null"}],
            "validations": [{"expression": "namespaceObject == null"}],
        }
        assert "failed expression: namespaceObject == null" in self.refusal(spec, config_map()).message

    def test_parameters_by_their_labels(self) -> None:
        spec: Object = {
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "validations": [{"expression": "object.metadata.name != params.data.not"}],
        }
        selector = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "off", "operator": "DoesNotExist"}]}
        client = cluster("validating", spec, {"validationActions": ["Deny"], "paramRef": {"selector": selector}})
        for name, labels in (("x", {"a": "b"}), ("y", {"a": "b"}), ("z", {"a": "c"}), ("o", {"a": "b", "off": ""})):
            limit = config_map(f"limit-{name}", **{"not": name})
            limit["metadata"]["labels"] = labels
            client.put("", "configmaps", limit)
        for name, refused in (("x", True), ("y", True), ("z", False), ("o", False)):
            if refused:
                self.refusal(spec, config_map(name), client=client)
            else:
                self.check(spec, config_map(name), client=client)

    def test_parameters_of_a_custom_resource(self) -> None:
        spec: Object = {
            "paramKind": {"apiVersion": "x.io/v1", "kind": "Limit"},
            "validations": [{"expression": "object.metadata.name == params.name"}],
        }
        ref = {"paramRef": {"name": "l", "parameterNotFoundAction": "Deny"}}

        def definition(group: str = "x.io", scope: str = "Cluster", kind: str = "Limit", served: bool = True) -> Object:
            versions = [{"name": "v1", "served": served}, {"name": "v2", "served": True}]
            names = {"kind": kind, "plural": "limits"}
            return {
                "metadata": {"name": "d"},
                "spec": {"group": group, "scope": scope, "names": names, "versions": versions},
            }

        known, unknown = "no params found", "failed to find resource"
        for given, where, why in (
            (definition(), "", ""), (definition(scope="Namespaced"), "n", ""), (definition(), "n", known),
            (definition(scope="Namespaced"), "", known), (definition(group="y.io"), "", unknown),
            (definition(kind="Other"), "", unknown), (definition(served=False), "", unknown),
        ):  # fmt: skip
            client = cluster("validating", spec, {"validationActions": ["Deny"], **ref})
            client.put("apiextensions.k8s.io", "customresourcedefinitions", given)
            limit = {"apiVersion": "x.io/v1", "kind": "Limit", "metadata": {"name": "l"}, "name": "a"}
            if where:
                limit["metadata"]["namespace"] = where
            client.put("x.io", "limits", limit)
            if why:
                assert why in self.refusal(spec, config_map(), client=client).message
            else:
                self.check(spec, config_map(), client=client)
                self.refusal(spec, config_map("b"), client=client)

    def test_a_dear_expression_runs_out_of_budget(self) -> None:
        searches = "object.list.all(a, object.list.all(b, !object.text.contains('z')))"
        spec = {"validations": [{"expression": searches}]}
        error = self.refusal(spec, {**config_map(), "list": list(range(100)), "text": "x" * 10_000})
        assert "actual cost limit exceeded" in error.message


class TestMutating:
    def mutate(self, spec: Object, obj: Object) -> Object:
        client = cluster("mutating", {"reinvocationPolicy": "Never", **spec})
        asked = request(obj)
        finish(mutating.MutatingAdmissionPolicy(initializer(client)).admit(asked))
        assert asked.obj is not None
        return asked.obj

    @staticmethod
    def apply(*expressions: str) -> Object:
        changes = [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": e}} for e in expressions]
        return {"mutations": changes}

    @staticmethod
    def patch(*expressions: str) -> Object:
        return {"mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": e}} for e in expressions]}

    def test_apply_configuration(self) -> None:
        spec = self.apply(
            "Object{metadata: Object.metadata{labels: {'a': 'b'}}}", "Object{data: {'n': object.metadata.name}}"
        )
        changed = self.mutate(spec, config_map(k="v"))
        assert changed["metadata"]["labels"] == {"a": "b"}
        assert changed["data"] == {"k": "v", "n": "a"}

    def test_wrong_names_of_types(self) -> None:
        with pytest.raises(StatusError) as caught:
            self.mutate(self.apply("Object{metadata: Object.spec{labels: {'a': 'b'}}}"), config_map())
        assert 'unexpected type name "Object.spec", expected "Object.metadata"' in caught.value.message

    @pytest.mark.parametrize("items", ["[%s]", "[[%s]]", "{'a': %s}"])
    def test_wrong_names_of_types_of_items(self, items: str) -> None:
        spec = self.apply("Object{data: Object.data{a: %s}}" % (items % "Object.b{c: 'd'}"))
        with pytest.raises(StatusError) as caught:
            self.mutate(spec, config_map())
        assert 'unexpected type name "Object.b", expected "Object.data.a"' in caught.value.message

    def test_json_patch(self) -> None:
        spec = self.patch(
            "[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('x/y'), value: object.metadata.name}]"
        )
        assert self.mutate(spec, config_map(k="v"))["data"] == {"k": "v", "x/y": "a"}

    @pytest.mark.parametrize(
        ("json", "expression", "why"),
        [
            (True, "dyn([JSONPatch{}])", "must evaluate to list(JSONPatch) but got dyn"),
            (
                True,
                "[JSONPatch{}] + [null]",
                "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch",
            ),
            *(
                (True, f"[JSONPatch{{op: 'add', path: '/data/x', value: {value}}}]", NO_JSON + why)
                for value, why in (
                    ("type(1)", "type conversion not supported for 'type'"),
                    ("[quantity('1')]", "type conversion error from 'Quantity' to '*structpb.Value'"),
                    ("{'a': ip('1.2.3.4')}", "type conversion error from 'IP' to '*structpb.Value'"),
                    ("authorizer.group('')",
                     "type conversion error from 'kubernetes.authorization.GroupCheck' to '*structpb.Value'"),
                    ("optional.none()", "optional.none() dereference"),
                    ("{1: 'a'}", "unsupported type conversion from 'int' to string"),
                    ("{1u: 'a'}", "unsupported type conversion from 'uint' to string"),
                    ("{true: 'a'}", "type conversion error from bool to 'string'"),
                    ("[JSONPatch{}]", "cannot convert to native type: *structpb.Value"),
                    ("variables", 'disallowed conversion from "kubernetes.variables" to ""'),
                )
            ),
            (False, "Object{metadata: Object.metadata{managedFields: []}}",
             "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: "
             ".metadata.managedFields"),
            (False, "dyn(Object{})", "must evaluate to Object but got dyn"),
            (False, "Object{metadata: Object.metadata{finalizers: [dyn(null)]}}",
             f"{UNTYPED}.metadata.finalizers: element 0: associative list without keys has an element that's an explicit null"),
            (False, "Object{data: null}", f"{UNTYPED}.data: expected map, got &{{NULL_VALUE}}"),
            (False, "Object{immutable: null}", f"{UNTYPED}.immutable: expected boolean, got &{{NULL_VALUE}}"),
            (False, "Object{data: {'a': null}}", f"{UNTYPED}.data.a: expected string, got &value.valueUnstructured{{Value:0}}"),
            (False, "Object{data: {'a': b'x'}}",
             f"{UNTYPED}.data.a: expected string, got &value.valueUnstructured{{Value:[]uint8{{0x78}}}}"),
            (False, "Object{data: {'a': duration('1s')}}",
             f"{UNTYPED}.data.a: expected string, got &value.valueUnstructured{{Value:1000000000}}"),
            (False, "Object{metadata: Object.metadata{generation: null}}",
             f"{UNTYPED}.metadata.generation: expected numeric (int or float), got structpb.NullValue"),
            (False, "Object{metadata: Object.metadata{creationTimestamp: timestamp('2020-01-01T00:00:00Z')}}",
             f"{UNTYPED}.metadata.creationTimestamp: expected any scalar, got &{{2020-01-01 00:00:00 +0000 UTC}}"),
            (False, "([Object{}] + [null])[1]", "unsupported return type from ApplyConfiguration expression"),
        ],
    )  # fmt: skip
    def test_what_an_expression_may_not_make(self, json: bool, expression: str, why: str) -> None:
        with pytest.raises(StatusError) as caught:
            self.mutate(self.patch(expression) if json else self.apply(expression), config_map(k="v"))
        assert caught.value.message.startswith(f"policy 'p' with binding 'b' denied request: {why}")

    def test_integers_that_json_does_not_hold_are_texts(self) -> None:
        for value, made in (
            ("9007199254740992", "9007199254740992"),
            ("18446744073709551615u", "18446744073709551615"),
        ):
            spec = self.patch(f"[JSONPatch{{op: 'add', path: '/data/n', value: {value}}}]")
            assert self.mutate(spec, config_map(k="v"))["data"] == {"k": "v", "n": made}

    @pytest.mark.parametrize(
        ("operations", "data"),
        [
            ("op: 'copy', from: '/data/k', path: '/data/n'", {"k": "v", "n": "v"}),
            ("op: 'move', from: '/data/k', path: '/data/n'", {"n": "v"}),
            ("op: 'add', path: '/data/n', value: optional.of('w')", {"k": "v", "n": "w"}),
            ("op: 'replace', path: '/data', value: {'a': 'b'}", {"a": "b"}),
            ("op: 'add', path: '/data/n', value: string(1.5)", {"k": "v", "n": "1.5"}),
        ],
    )  # fmt: skip
    def test_operations_of_a_json_patch(self, operations: str, data: Object) -> None:
        assert self.mutate(self.patch(f"[JSONPatch{{{operations}}}]"), config_map(k="v"))["data"] == data

    def test_a_patch_may_name_no_unknown_kind(self) -> None:
        for field, value, why in (
            ("kind", "Foo", 'no kind "Foo" is registered for version "v1"'),
            ("apiVersion", "v9", 'no kind "ConfigMap" is registered for version "v9"'),
            ("apiVersion", "a/b/c", "unexpected GroupVersion string: a/b/c"),
        ):
            with pytest.raises(StatusError) as caught:
                self.mutate(self.patch(f"[JSONPatch{{op: 'add', path: '/{field}', value: '{value}'}}]"), config_map())
            assert caught.value.message.startswith(f"Internal error occurred: {why}")

    def test_a_kind_of_another_group_than_the_resource_has_no_type(self) -> None:
        (rule,) = RULES["resourceRules"]
        rules = {"resourceRules": [{**rule, "resources": ["configmaps/scale"]}]}
        changes = self.apply("Object{spec: Object.spec{replicas: 1}}")
        client = cluster("mutating", {"reinvocationPolicy": "Never", "matchConstraints": rules, **changes})
        scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 2}}
        asked = attributes(scale, group="autoscaling", kind="Scale", resource="configmaps", subresource="scale")
        asked.resource = GroupVersionResource("", "v1", "configmaps")
        with pytest.raises(StatusError) as caught:
            finish(mutating.MutatingAdmissionPolicy(initializer(client)).admit(asked))
        why = "failed to convert patch object to typed object: no corresponding type for autoscaling/v1, Kind=Scale"
        assert caught.value.message == f"policy 'p' with binding 'b' denied request: error applying patch: {why}"

    def test_a_failed_test_changes_nothing(self) -> None:
        spec = self.patch(
            "[JSONPatch{op: 'test', path: '/data/k', value: 'z'}, JSONPatch{op: 'remove', path: '/data'}]"
        )
        assert self.mutate(spec, config_map(k="v"))["data"] == {"k": "v"}

    def test_a_patch_that_does_not_apply(self) -> None:
        spec = self.patch("[JSONPatch{op: 'remove', path: '/data/none'}]")
        with pytest.raises(StatusError) as caught:
            self.mutate(spec, config_map(k="v"))
        assert caught.value.message.startswith("policy 'p' with binding 'b' denied request: JSON Patch: ")
        assert self.mutate({**spec, "failurePolicy": "Ignore"}, config_map(k="v"))["data"] == {"k": "v"}

    @pytest.mark.parametrize("policy", ["Fail", "Ignore"])
    @pytest.mark.parametrize(
        ("path", "value", "why"),
        [
            ("/data/n", "1", "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"),
            ("/datum", "'x'", 'strict decoding error: unknown field "datum"'),
            ("/metadata/Labels", "{'a': 'b'}", 'strict decoding error: unknown field "metadata.Labels"'),
        ],
    )
    def test_what_a_json_patch_makes_is_read_strictly(self, path: str, value: str, why: str, policy: str) -> None:
        spec = self.patch(f"[JSONPatch{{op: 'add', path: '{path}', value: {value}}}]")
        with pytest.raises(StatusError) as caught:
            self.mutate({**spec, "failurePolicy": policy}, config_map(k="v"))
        assert (caught.value.code, caught.value.message) == (500, f"Internal error occurred: {why}")

    @pytest.mark.parametrize("policy", ["Fail", "Ignore"])
    def test_what_a_json_patch_makes_is_an_object(self, policy: str) -> None:
        spec = self.patch("[JSONPatch{op: 'replace', path: '', value: [1]}]")
        with pytest.raises(StatusError) as caught:
            self.mutate({**spec, "failurePolicy": policy}, config_map(k="v"))
        told = "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type "
        assert caught.value.code == 500
        assert caught.value.message.startswith(f"Internal error occurred: {told}")

    def test_unknown_fields_are_told_in_the_order_of_the_text_that_a_json_patch_leaves(self) -> None:
        """The objects that the patch goes through are sorted there, and a value is as it was written."""
        added = (
            ("/zebra", "'x'"),
            ("/apple", "'x'"),
            ("/metadata/two", "'x'"),
            ("/metadata/one", "{'b': 'x', 'a': 'y'}"),
        )
        operations = ", ".join(f"JSONPatch{{op: 'add', path: '{path}', value: {value}}}" for path, value in added)
        with pytest.raises(StatusError) as caught:
            self.mutate(self.patch(f"[{operations}]"), config_map(k="v"))
        told = ", ".join(f'unknown field "{name}"' for name in ("apple", "metadata.one", "metadata.two", "zebra"))
        assert caught.value.message == f"Internal error occurred: strict decoding error: {told}"

    def test_a_mutation_that_fails_leaves_the_others_of_its_policy(self) -> None:
        """The first error is the message; all of them are causes."""
        expressions = [f"Object{{data: {{'n': object.data.{name}}}}}" for name in ("x", "y")]
        expressions.insert(1, "Object{data: {'added': 'yes'}}")
        spec = self.apply(*expressions)
        changed = self.mutate({**spec, "failurePolicy": "Ignore"}, config_map(k="v"))
        assert changed["data"] == {"k": "v", "added": "yes"}
        with pytest.raises(StatusError) as caught:
            self.mutate(spec, config_map(k="v"))
        assert caught.value.details is not None
        causes = [cause["message"] for cause in caught.value.details["causes"]]
        assert [cause.rpartition(": ")[2] for cause in causes] == ["x", "y"]
        assert (caught.value.message, caught.value.reason) == (causes[0], "Invalid")

    def test_a_result_that_cannot_be_read_is_counted_as_a_rejection(self) -> None:
        spec = self.patch("[JSONPatch{op: 'add', path: '/datum', value: 'x'}]")
        client = cluster("mutating", {"reinvocationPolicy": "Never", **spec})
        given = initializer(client)
        given.meter = meter = Mock()
        with pytest.raises(StatusError):
            finish(mutating.MutatingAdmissionPolicy(given).admit(request(config_map())))
        assert [call.args[3] for call in meter.policy.call_args_list] == ["invalid_error"]

    def test_a_json_patch_may_take_the_kind_away(self) -> None:
        spec = self.patch("[JSONPatch{op: 'remove', path: '/kind'}, JSONPatch{op: 'remove', path: '/apiVersion'}]")
        assert self.mutate(spec, config_map(k="v")) == config_map(k="v")

    @pytest.mark.parametrize("changes", [True, False])
    def test_a_policy_that_ran_may_run_again_though_nothing_changed_after_it(self, changes: bool) -> None:
        count = "string(has(object.data) ? object.data.size() : 0)" if changes else "'0'"
        spec = self.apply("Object{data: {'n' + " + count + ": 'x'}}")
        client = cluster("mutating", {"reinvocationPolicy": "IfNeeded", **spec})
        plugin = mutating.MutatingAdmissionPolicy(initializer(client))
        asked = request(config_map(n0="x"))
        reinvocation = asked.reinvocation = Reinvocation()
        finish(plugin.admit(asked))
        assert reinvocation.requested
        reinvocation.again = True
        finish(plugin.admit(asked))
        assert asked.obj is not None
        assert asked.obj["data"] == ({"n0": "x", "n1": "x", "n2": "x"} if changes else {"n0": "x"})

    @pytest.mark.parametrize("version", ["v1", "v2"])
    def test_fields_that_a_custom_resource_does_not_have(self, version: str) -> None:
        """Whether it is asked for in the version of the policy or in another."""
        converted = {
            "x.io/v1": lambda obj: {**obj, "apiVersion": "x.io/v1"},
            "x.io/v2": lambda obj: {**obj, "apiVersion": "x.io/v2"},
        }
        schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}}
        type_ = type_of(Schema(schema), "Thing")
        row = Resource(
            group="x.io",
            version=version,
            kind="Thing",
            plural="things",
            namespaced=True,
            typed_items=True,
            schema=lambda: type_,
            other_versions=lambda: {
                other: (type_, convert, converted[f"x.io/{version}"])
                for other, convert in converted.items()
                if other != f"x.io/{version}"
            },
        )
        rule = {"apiGroups": ["x.io"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["things"]}
        told = {}
        for name in ("a", "b"):
            spec = self.apply(f"Object{{spec: Object.spec{{{name}: 'z'}}}}")
            client = cluster("mutating", {**spec, "matchConstraints": {"resourceRules": [rule]}})
            obj = {"apiVersion": f"x.io/{version}", "kind": "Thing", "metadata": {"name": "t"}, "spec": {}}
            asked = attributes(obj, group="x.io", version=version, resource="things", kind="Thing")
            asked.custom_resource = row
            try:
                finish(mutating.MutatingAdmissionPolicy(initializer(client)).admit(asked))
            except StatusError as error:
                told[name] = error.message
            else:
                assert asked.obj is not None and asked.obj["spec"] == {name: "z"}
        assert list(told) == ["b"] and told["b"].endswith(".spec.b: field not declared in schema")
