"""Kinds that have no stable version: off unless ``--runtime-config`` and their gates turn them on; their rules and tables."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kapi.assembly.storage import enablement
from kapi.machinery.tree import Object
from kapi.options.options import Options
from kapi.resources.catalogue import BUILT_IN
from kapi.resources.previews import PREVIEWS
from kapi.servers.core.enablement import served
from kapi.servers.core.install import core_rows
from kapi.testing.memory_api import MemoryAPI, succeed

CANDIDATES = "/apis/coordination.k8s.io/v1beta1/namespaces/default/leasecandidates"
VERSIONS = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions"
MIGRATIONS = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations"
TAINTS = "/apis/resource.k8s.io/v1beta2/devicetaintrules"
BUNDLES = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles"


@pytest.fixture
def api() -> MemoryAPI:
    started: MemoryAPI = succeed(MemoryAPI.started(rows=(*BUILT_IN, *PREVIEWS)))
    started.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
    return started


def names(*flags: str) -> set[str]:
    options = Options.from_command_line(flags)
    rows = served(core_rows(), enablement(options))
    return {f"{row.group_version}/{row.plural}" for row in rows}


@pytest.mark.parametrize(
    ("resource", "gates"),
    [
        ("storagemigration.k8s.io/v1beta1/storageversionmigrations", "StorageVersionMigrator=true"),
        ("certificates.k8s.io/v1alpha1/clustertrustbundles", "ClusterTrustBundle=true"),
        ("certificates.k8s.io/v1beta1/podcertificaterequests", "PodCertificateRequest=true"),
        ("scheduling.k8s.io/v1alpha2/podgroups", "GenericWorkload=true"),
        ("scheduling.k8s.io/v1alpha2/workloads", "GenericWorkload=true"),
    ],
)
def test_both_the_version_and_the_gate_are_needed(resource: str, gates: str) -> None:
    version = f"--runtime-config={resource.rpartition('/')[0]}=true"
    assert resource not in names()
    assert resource not in names(version)
    assert resource not in names(f"--feature-gates={gates}")
    assert resource in names(version, f"--feature-gates={gates}")


@pytest.mark.parametrize(
    ("resource", "gates"),
    [
        ("coordination.k8s.io/v1alpha2/leasecandidates", "CoordinatedLeaderElection=true"),
        ("coordination.k8s.io/v1beta1/leasecandidates", "CoordinatedLeaderElection=true"),
        ("internal.apiserver.k8s.io/v1alpha1/storageversions", "StorageVersionAPI=true"),
        ("resource.k8s.io/v1alpha3/devicetaintrules", "DRADeviceTaintRules=true"),
        ("resource.k8s.io/v1beta2/devicetaintrules", "DRADeviceTaintRules=true"),
        ("resource.k8s.io/v1alpha3/resourcepoolstatusrequests", "DRAResourcePoolStatus=true"),
    ],
)
def test_the_version_alone_is_needed_where_the_gate_is_of_what_uses_it(resource: str, gates: str) -> None:
    assert resource not in names(f"--feature-gates={gates}")
    assert resource in names(f"--runtime-config={resource.rpartition('/')[0]}=true")
    assert resource in names("--runtime-config=api/all=true")


def texts(answer: Any) -> list[str]:
    assert answer.code == 422, answer.json
    return [f"{cause['field']}: {cause['message']}" for cause in answer.json["details"]["causes"]]


def candidate(**spec: str) -> Object:
    usual = {
        "leaseName": "a",
        "binaryVersion": "1.36.0",
        "emulationVersion": "1.36.0",
        "strategy": "OldestEmulationVersion",
    }
    return {"metadata": {"name": "me"}, "spec": {**usual, **spec}}


def test_a_lease_candidate(api: MemoryAPI) -> None:
    made = api.ask("POST", CANDIDATES, candidate())
    assert made.code == 201
    warning = "coordination.k8s.io/v1beta1 LeaseCandidate is deprecated in v1.36+, unavailable in v1.39+"
    assert made.responseHeaders.getRawHeaders("Warning") == [f'299 - "{warning}"']
    other = api.ask("GET", CANDIDATES.replace("v1beta1", "v1alpha2") + "/me").json
    assert (other["apiVersion"], other["spec"]) == ("coordination.k8s.io/v1alpha2", candidate()["spec"])
    table = api.ask("GET", CANDIDATES, headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}).json
    assert table["rows"][0]["cells"][:4] == ["me", "a", "1.36.0", "1.36.0"]
    changed = {**made.json, "spec": {**made.json["spec"], "leaseName": "b"}}
    assert texts(api.ask("PUT", f"{CANDIDATES}/me", changed)) == [
        'spec.leaseName: Invalid value: "b": field is immutable'
    ]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"leaseName": ""}, "spec.leaseName: Required value"),
        ({"binaryVersion": ""}, "spec.binaryVersion: Required value"),
        ({"binaryVersion": "1.36"}, 'spec.binaryVersion: Invalid value: "1.36": must be a valid semantic version'),
        (
            {"binaryVersion": "1.35.9"},
            'spec.binaryVersion: Invalid value: "1.35.9": must be greater than or equal to `emulationVersion`',
        ),
        (
            {"emulationVersion": ""},
            "spec.emulationVersion: Required value: must be specified when `strategy` is 'OldestEmulationVersion'",
        ),
        (
            {"emulationVersion": "0.0.0"},
            "spec.emulationVersion: Required value: must be specified when `strategy` is 'OldestEmulationVersion'",
        ),
        ({"strategy": ""}, "spec.strategy: Required value"),
        (
            {"strategy": "x"},
            'spec.strategy.strategy: Unsupported value: "x": supported values: "OldestEmulationVersion"',
        ),
    ],
)
def test_what_is_wrong_with_a_lease_candidate(api: MemoryAPI, spec: dict[str, str], text: str) -> None:
    assert text in texts(api.ask("POST", CANDIDATES, candidate(**spec)))


def test_the_least_versions_of_a_lease_candidate(api: MemoryAPI) -> None:
    for emulated in ("0.0.1", "0.1.0", "1.0.0"):
        made = candidate(emulationVersion=emulated)
        assert api.ask("POST", f"{CANDIDATES}?dryRun=All", made).code == 201, emulated


def test_a_storage_version(api: MemoryAPI) -> None:
    assert texts(api.ask("POST", VERSIONS, {"metadata": {"name": "pods"}, "spec": {}})) == [
        'metadata.name: Invalid value: "pods": name must be in the form of <group>.<resource>'
    ]
    made = api.ask("POST", VERSIONS, {"metadata": {"name": "apps.deployments"}, "spec": {}}).json
    server = {"apiServerID": "a", "encodingVersion": "apps/v1", "decodableVersions": ["apps/v1"]}
    status: Object = {"storageVersions": [server], "commonEncodingVersion": "apps/v1"}
    where = f"{VERSIONS}/apps.deployments/status"
    labelled = {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}, "status": status}
    written = api.ask("PUT", where, labelled)
    assert (written.code, written.json["metadata"].get("labels")) == (200, None)
    table = api.ask("GET", VERSIONS, headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}).json
    assert table["rows"][0]["cells"][:3] == ["apps.deployments", "apps/v1", "a=apps/v1"]
    made = api.ask("GET", where).json
    wrong = {"storageVersions": [{**server, "decodableVersions": ["v1"]}], "commonEncodingVersion": "v1"}
    assert texts(api.ask("PUT", where, {**made, "status": wrong})) == [
        'status.storageVersions[0].decodableVersions: Invalid value: ["v1"]: decodableVersions must include encodingVersion '
        "apps/v1",
        'status.commonEncodingVersion: Invalid value: "v1": the actual common encoding version is apps/v1',
    ]


def condition(kind: str, status: str = "True") -> Object:
    return {"type": kind, "status": status, "reason": "A", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def test_a_storage_version_migration(api: MemoryAPI) -> None:
    missing = {"metadata": {"name": "m"}, "spec": {"resource": {"group": "apps", "resource": ""}}}
    assert texts(api.ask("POST", MIGRATIONS, missing)) == [
        "spec.resource.resource: Required value: resource is required to be set"
    ]
    wrong = {**missing, "spec": {"resource": {"group": "Apps", "resource": "deployments.apps"}}}
    assert [text.partition(": a ")[0] for text in texts(api.ask("POST", MIGRATIONS, wrong))] == [
        'spec.resource.resource: Invalid value: "deployments.apps"',
        'spec.resource.group: Invalid value: "Apps"',
    ]
    made = api.ask(
        "POST", MIGRATIONS, {**missing, "spec": {"resource": {"group": "apps", "resource": "deployments"}}}
    ).json
    changed = {**made, "spec": {"resource": {"group": "", "resource": "deployments"}}}
    assert texts(api.ask("PUT", f"{MIGRATIONS}/m", changed)) == [
        'spec: Invalid value: {"Resource":{"group":"","resource":"deployments"}}: field is immutable'
    ]
    where = f"{MIGRATIONS}/m/status"
    status: Object = {"resourceVersion": "12", "conditions": [condition("Succeeded")]}
    done = api.ask("PUT", where, {**made, "status": status})
    assert done.code == 200
    answer = api.ask("PUT", where, {**done.json, "status": {"resourceVersion": "x", "conditions": []}})
    assert [text.partition(": Invalid value: ")[::2][0] for text in texts(answer)] == [
        "status.resourceVersion",
        "status.resourceVersion",
        "status.conditions",
    ]
    table = api.ask("GET", MIGRATIONS, headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}).json
    assert table["rows"][0]["cells"] == ["m", "deployments.apps", "Succeeded"]


@pytest.mark.parametrize(
    ("revision", "wanted"),
    [
        ("1", True),
        ("9" * 99, True),
        ("", True),  # it is not known yet
        ("0", False),
        ("01", False),
        ("+1", False),
        ("1.0", False),
        ("\u0661", False),
    ],
)
def test_the_revision_of_a_migration_can_be_compared(api: MemoryAPI, revision: str, wanted: bool) -> None:
    made = api.ask("POST", MIGRATIONS, {"metadata": {"name": "m"}, "spec": {"resource": {"resource": "pods"}}}).json
    answer = api.ask("PUT", f"{MIGRATIONS}/m/status", {**made, "status": {"resourceVersion": revision}})
    found = [] if answer.code == 200 else texts(answer)
    problem = f'status.resourceVersion: Invalid value: "{revision}": resource version is not well formed: {revision}'
    assert found == ([] if wanted else [problem])


def test_the_conditions_of_a_migration(api: MemoryAPI) -> None:
    made = api.ask("POST", MIGRATIONS, {"metadata": {"name": "m"}, "spec": {"resource": {"resource": "pods"}}}).json
    status = {"resourceVersion": "1", "conditions": [{**condition("Running"), "reason": ""}]}
    answer = api.ask("PUT", f"{MIGRATIONS}/m/status", {**made, "status": status})
    assert texts(answer) == ["status.conditions[0].reason: Required value"]


def test_a_device_taint_rule(api: MemoryAPI) -> None:
    rule: Object = {"metadata": {"name": "r"}, "spec": {"taint": {"key": "a", "effect": "None"}}}
    made = api.ask("POST", TAINTS, rule)
    assert made.code == 201
    assert made.json["spec"]["taint"]["timeAdded"] and made.json["metadata"]["generation"] == 1
    wrong = {
        "metadata": {"name": "s"},
        "spec": {"taint": {"key": "", "effect": "X"}, "deviceSelector": {"driver": "_"}},
    }
    found = texts(api.ask("POST", TAINTS, wrong))
    wrong_fields = {"spec.deviceSelector.driver", "spec.taint.key", "spec.taint.effect"}
    assert {text.partition(":")[0] for text in found} == wrong_fields
    status = {"conditions": [condition("Applied")]}
    assert api.ask("PUT", f"{TAINTS}/r/status", {**made.json, "status": status}).json["status"] == status


@pytest.mark.parametrize(
    ("where", "name", "spec"),
    [
        (VERSIONS, "apps.deployments", {}),
        (MIGRATIONS, "m", {"resource": {"group": "apps", "resource": "deployments"}}),
        (BUNDLES, "b", None),
        (CANDIDATES, "c", None),
    ],
)
def test_an_update_tells_what_it_has_read(api: MemoryAPI, where: str, name: str, spec: Object | None) -> None:
    given = {BUNDLES: lambda: bundle(name, authority())["spec"], CANDIDATES: lambda: candidate()["spec"]}
    made: Object = {"metadata": {"name": name}, "spec": given[where]() if spec is None else spec}
    assert api.ask("POST", where, made).code == 201
    text = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    assert texts(api.ask("PUT", f"{where}/{name}", made)) == [text]


def authority(*, ca: bool = True) -> str:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a")])
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(9))
    made = builder.add_extension(x509.BasicConstraints(ca, None), True).sign(key, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM).decode()


def bundle(name: str, text: str, signer: str = "") -> Object:
    return {"metadata": {"name": name}, "spec": {"trustBundle": text, **({"signerName": signer} if signer else {})}}


def test_a_cluster_trust_bundle(api: MemoryAPI) -> None:
    anchor = authority()
    assert api.ask("POST", BUNDLES, bundle("plain", anchor)).code == 201
    made = api.ask("POST", BUNDLES, bundle("example.com:foo:v1", anchor, "example.com/foo"))
    assert made.code == 201
    listed = api.ask("GET", f"{BUNDLES}?fieldSelector=spec.signerName=example.com/foo").json
    assert [item["metadata"]["name"] for item in listed["items"]] == ["example.com:foo:v1"]
    table = api.ask("GET", BUNDLES, headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}).json
    assert [row["cells"] for row in table["rows"]] == [["example.com:foo:v1", "example.com/foo"], ["plain", "<none>"]]
    changed = {**made.json, "spec": {**made.json["spec"], "signerName": "example.com/bar"}}
    assert 'spec.signerName: Invalid value: "example.com/bar": field is immutable' in texts(
        api.ask("PUT", f"{BUNDLES}/example.com:foo:v1", changed)
    )


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (bundle("a", ""), "at least one trust anchor must be provided"),
        (bundle("a", authority(ca=False)), "entry 0 does not have the CA bit set"),
        (bundle("a", "-----BEGIN X-----\nAAAA\n-----END X-----\n"), "entry 0 has bad block type: X"),
        (
            bundle("a", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
            "entry 0 does not parse as X.509",
        ),
        (bundle("a", 2 * authority()), ""),
    ],
    ids=["nothing", "no authority", "another block", "no certificate", "twice"],
)
def test_what_is_wrong_with_a_trust_bundle(api: MemoryAPI, made: Object, text: str) -> None:
    wanted = text or "duplicate trust anchor (indices [0 1])"
    assert texts(api.ask("POST", BUNDLES, made)) == [f'spec.trustBundle: Invalid value: "<value omitted>": {wanted}']


@pytest.mark.parametrize(
    ("name", "signer", "text"),
    [
        ("a:b", "", 'ClusterTrustBundle without signer name must not have ":" in its name'),
        (
            "a",
            "example.com/foo",
            "ClusterTrustBundle for signerName example.com/foo must be named with prefix example.com:foo:",
        ),
    ],
)
def test_a_bundle_is_named_after_its_signer(api: MemoryAPI, name: str, signer: str, text: str) -> None:
    assert texts(api.ask("POST", BUNDLES, bundle(name, authority(), signer))) == [
        f'metadata.name: Invalid value: "{name}": {text}'
    ]


def test_the_size_of_a_trust_bundle(api: MemoryAPI) -> None:
    assert texts(api.ask("POST", BUNDLES, bundle("a", "x" * ((1 << 20) + 1)))) == [
        "spec.trustBundle: Too long: may not be more than 1048576 bytes"
    ]
