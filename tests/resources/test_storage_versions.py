"""StorageVersions: the versions that servers report."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.machinery.tree import Object
from kapi.resources.previews import PREVIEWS
from tests.resources.strategy_kit import changes, made, problems, short

ROW = next(row for row in PREVIEWS if row.plural == "storageversions")


def server(name: str = "a", encoding: str = "v1", *decodable: str) -> Object:
    return {"apiServerID": name, "encodingVersion": encoding, "decodableVersions": list(decodable or (encoding,))}


def condition(kind: str, **parts: str) -> Object:
    return {"type": kind, "status": "True", "reason": "R", "message": "m", **parts}


def status_of(*servers: Object, common: str | None = None, conditions: Any = ()) -> Object:
    found: Object = {"storageVersions": list(servers), "conditions": list(conditions)}
    return found if common is None else {**found, "commonEncodingVersion": common}


@pytest.mark.parametrize(
    ("status", "texts"),
    [
        (status_of(), []),
        (status_of(common="v1"), [
             'commonEncodingVersion: Invalid value: "v1": should be nil if servers do not agree on the same encoding '
             "version, or if there is no server reporting the supported versions yet",
         ]),
        (status_of(server(), common="v1"), []),
        (status_of(server()), ["commonEncodingVersion: Invalid value: null: the common encoding version is v1"]),
        (status_of(server(), common="v2"), [
             'commonEncodingVersion: Invalid value: "v2": the actual common encoding version is v1',
         ]),
        (status_of(server(), server("b", "v2")), []),
        (status_of(server(), server("b", "v2"), common="v1"), [
             'commonEncodingVersion: Invalid value: "v1": should be nil if servers do not agree on the same encoding '
             "version, or if there is no server reporting the supported versions yet",
         ]),
        (status_of(server("A"), common="v1"), ['storageVersions[0].apiServerID: Invalid value: "A": <subdomain>']),
        (status_of(server("a", "apps/v1"), common="apps/v1"), []),
        (status_of(server("a", "/v1"), common="/v1"), [
             'storageVersions[0].encodingVersion: Invalid value: "/v1": group part: must be non-empty',
             'storageVersions[0].decodableVersions[0]: Invalid value: "/v1": group part: must be non-empty',
         ]),
        (status_of(server("a", "apps/"), common="apps/"), [
             'storageVersions[0].encodingVersion: Invalid value: "apps/": version part: must be non-empty',
             'storageVersions[0].decodableVersions[0]: Invalid value: "apps/": version part: must be non-empty',
         ]),
        (status_of(server("a", "A/1"), common="A/1"), [
             'storageVersions[0].encodingVersion: Invalid value: "A/1": group part: <subdomain>,version part: '
             "<DNS-1035 label>",
             'storageVersions[0].decodableVersions[0]: Invalid value: "A/1": group part: <subdomain>,version part: '
             "<DNS-1035 label>",
         ]),
        (status_of(server("a", "a/b/c"), common="a/b/c"), [
             'storageVersions[0].encodingVersion: Invalid value: "a/b/c": an apiVersion is a DNS-1035 label, which '
             "must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end "
             "with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
             "'[a-z]([-a-z0-9]*[a-z0-9])?') with an optional DNS subdomain prefix and '/' (e.g. "
             "'example.com/MyVersion')",
             'storageVersions[0].decodableVersions[0]: Invalid value: "a/b/c": an apiVersion is a DNS-1035 label, '
             "which must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
             "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
             "'[a-z]([-a-z0-9]*[a-z0-9])?') with an optional DNS subdomain prefix and '/' (e.g. "
             "'example.com/MyVersion')",
         ]),
        (status_of(server("a", "", "v1"), common=""), [
             'storageVersions[0].encodingVersion: Invalid value: "": version part: must be non-empty',
             'storageVersions[0].decodableVersions: Invalid value: ["v1"]: decodableVersions must include '
             "encodingVersion ",
         ]),
        (status_of(server("a", "v1", "v2", "V"), common="v1"), [
             'storageVersions[0].decodableVersions[1]: Invalid value: "V": version part: <DNS-1035 label>',
             'storageVersions[0].decodableVersions: Invalid value: ["v2","V"]: decodableVersions must include '
             "encodingVersion v1",
         ]),
        (status_of(conditions=[condition("A"), condition("B"), condition("A")]), [
             'status[2].type: Invalid value: "A": the type of the condition is not unique, it also appears in '
             "conditions[0]",
         ]),
        (status_of(conditions=[condition("-", status="-", reason="", message="")]), [
             'status[0].type: Invalid value: "-": <name part>',
             'status[0].status: Invalid value: "-": <name part>',
             "status[0].reason: Required value: reason cannot be empty",
             "status[0].message: Required value: message cannot be empty",
         ]),
    ],
)  # fmt: skip
def test_status(status: Object, texts: list[str]) -> None:
    old = made(ROW, metadata={"name": "apps.deployments"}, spec={})
    assert short(changes(ROW, old, subresource="status", status=status), "status.") == texts


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("apps.deployments", []),
        ("deployments", ['Invalid value: "deployments": name must be in the form of <group>.<resource>']),
        ("A.deployments", ['Invalid value: "A.deployments": the group segment <subdomain>']),
        ("apps.1", ['Invalid value: "apps.1": the resource segment <DNS-1035 label>']),
        ("a.b.c", []),
    ],
)  # fmt: skip
def test_name(name: str, texts: list[str]) -> None:
    assert short(problems(ROW, metadata={"name": name}, spec={}), "metadata.name: ") == texts
