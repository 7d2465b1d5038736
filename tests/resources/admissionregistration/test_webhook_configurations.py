"""Webhook configurations: defaults, what they are refused for, and what was accepted once."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kapi.machinery.tree import Object
from kapi.resources.admissionregistration import webhooks as mutatingwebhookconfigurations
from kapi.resources.admissionregistration import webhooks as validatingwebhookconfigurations
from tests.resources.strategy_kit import CTX, changes, made, problems, short

ROW = validatingwebhookconfigurations.VALIDATING
RULE: Object = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
HOOK: Object = {
    "name": "a.b.c",
    "clientConfig": {"url": "https://example.com/x"},
    "admissionReviewVersions": ["v1"],
    "sideEffects": "None",
    "rules": [RULE],
}


def hook(**parts: Any) -> list[Object]:
    return [{**HOOK, **parts}]


def serving(**parts: Any) -> list[Object]:
    return hook(clientConfig={"service": {"name": "s", "namespace": "n", **parts}})


BAD: Object = {"matchLabels": {"a": "-"}}


def test_a_webhook_has_defaults() -> None:
    (found,) = made(ROW, webhooks=[{**HOOK, "clientConfig": {"service": {"name": "s", "namespace": "n"}}}])["webhooks"]
    assert {name: found[name] for name in ("failurePolicy", "matchPolicy", "timeoutSeconds")} == {
        "failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10,
    }  # fmt: skip
    assert found["namespaceSelector"] == found["objectSelector"] == {}
    assert (found["clientConfig"]["service"]["port"], found["rules"][0]["scope"]) == (443, "*")
    assert "reinvocationPolicy" not in found
    (found,) = made(mutatingwebhookconfigurations.MUTATING, webhooks=hook())["webhooks"]
    assert found["reinvocationPolicy"] == "Never"


@pytest.mark.parametrize(
    ("webhooks", "texts"),
    [
        (hook(), []),
        (
            hook(name="a.b"),
            ['[0].name: Invalid value: "a.b": should be a domain with at least three segments separated by dots'],
        ),
        (hook() * 2, ['[1].name: Duplicate value: "a.b.c"']),
        (
            hook(sideEffects=None),
            ["[0].sideEffects: Required value: must specify one of None, NoneOnDryRun"],
        ),
        (
            hook(sideEffects="Some"),
            ['[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"'],
        ),
        (
            hook(timeoutSeconds=31),
            ["[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds"],
        ),
        (
            hook(clientConfig={}),
            ["[0].clientConfig: Required value: exactly one of url or service is required"],
        ),
        (
            hook(clientConfig={"url": "http://u@/x?q#f"}),
            [
                "[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; "
                "desired format: https://host[/path]",
                '[0].clientConfig.url: Invalid value: "": host must be specified; desired format: https://host[/path]',
                '[0].clientConfig.url: Invalid value: "u": user information is not permitted in the URL',
                '[0].clientConfig.url: Invalid value: "f": fragments are not permitted in the URL',
                '[0].clientConfig.url: Invalid value: "q": query parameters are not permitted in the URL',
            ],
        ),
        # upstream tells of a missing namespace where the name is, and the other way round
        (hook(clientConfig={"service": {"name": "s"}}), ["[0].clientConfig.service.name: Required value"]),
        (hook(clientConfig={"service": {"namespace": "n"}}), ["[0].clientConfig.service.namespace: Required value"]),
        (
            hook(clientConfig={"service": {"name": "s", "namespace": "n", "path": "/a//b", "port": 0}}),
            [
                "[0].clientConfig.service.port: Invalid value: 0: port is not valid: "
                "must be between 1 and 65535, inclusive",
                '[0].clientConfig.service.path: Invalid value: "/a//b": segment[1] may not be empty',
            ],
        ),
        (
            hook(admissionReviewVersions=["v2", "v2"]),
            [
                '[0].admissionReviewVersions[1]: Invalid value: "v2": duplicate version',
                '[0].admissionReviewVersions: Invalid value: ["v2","v2"]: must include at least one of v1, v1beta1',
            ],
        ),
        (
            hook(rules=[{**RULE, "operations": ["*", "CREATE"], "apiVersions": [""], "resources": ["*", "pods"]}]),
            [
                '[0].rules[0].operations: Invalid value: ["*","CREATE"]: '
                "if '*' is present, must not specify other operations",
                "[0].rules[0].apiVersions[0]: Required value",
                '[0].rules[0].resources: Invalid value: ["*","pods"]: '
                "if '*' is present, must not specify other resources without subresources",
            ],
        ),
        (
            hook(matchConditions=[{"name": "a", "expression": "true"}, {"name": "a", "expression": " "}]),
            [
                "[0].matchConditions[1].expression: Required value",
                '[0].matchConditions[1].name: Duplicate value: "a"',
            ],
        ),
        (hook(name=""), ["[0].name: Required value"]),
        (hook(name="A.b.c"), ['[0].name: Invalid value: "A.b.c": <subdomain>']),
        (hook(failurePolicy="X"), ['[0].failurePolicy: Unsupported value: "X": supported values: "Fail", "Ignore"']),
        (hook(matchPolicy="X"), ['[0].matchPolicy: Unsupported value: "X": supported values: "Equivalent", "Exact"']),
        (
            hook(namespaceSelector=BAD, objectSelector=BAD),
            [
                f'[0].{name}.matchLabels: Invalid value: "-": <label value>'
                for name in ("namespaceSelector", "objectSelector")
            ],
        ),
        (
            hook(clientConfig={"url": "https://a:b"}),
            [
                '[0].clientConfig.url: Required value: url must be a valid URL: parse "https://a:b": invalid port ":b" '
                "after host; desired format: https://host[/path]"
            ],
        ),
        (serving(path="/"), []),
        (serving(path="/a/b.c/"), []),
        (serving(path="//"), ['[0].clientConfig.service.path: Invalid value: "//": segment[0] may not be empty']),
        (
            serving(path="xa"),
            ["[0].clientConfig.service.path: Invalid value: \"xa\": must start with a '/'"],
        ),
        (serving(path="/A"), ['[0].clientConfig.service.path: Invalid value: "/A": segment[0]: <subdomain>']),
    ],
)
def test_what_a_configuration_is_refused_for(webhooks: list[Object], texts: list[str]) -> None:
    assert short(problems(ROW, webhooks=webhooks), "webhooks") == texts


def test_when_a_mutating_webhook_is_called_again() -> None:
    row = mutatingwebhookconfigurations.MUTATING
    assert problems(row, webhooks=hook(reinvocationPolicy="IfNeeded")) == []
    assert problems(row, webhooks=hook(reinvocationPolicy="X")) == [
        'webhooks[0].reinvocationPolicy: Unsupported value: "X": supported values: "IfNeeded", "Never"'
    ]


def test_names_of_configurations_in_files_are_not_for_the_api() -> None:
    ctx = replace(CTX, features={"ManifestBasedAdmissionControlConfig": True})
    (found,) = problems(ROW, ctx, metadata={"name": "a.static.k8s.io"}, webhooks=hook())
    assert found == (
        'metadata.name: Invalid value: "a.static.k8s.io": names ending with ".static.k8s.io" are reserved for static '
        "manifest-based configurations and cannot be managed via the API"
    )
    assert problems(ROW, metadata={"name": "a.static.k8s.io"}, webhooks=hook()) == []


def test_what_was_accepted_once_may_stay() -> None:
    old = made(ROW, webhooks=hook(sideEffects="Unknown", admissionReviewVersions=["v9"]) * 2)
    for webhook in old["webhooks"]:
        webhook["timeoutSeconds"] = 20
    assert changes(ROW, old, webhooks=old["webhooks"]) == []
    assert len(changes(ROW, made(ROW, webhooks=hook()), webhooks=old["webhooks"])) == 5
