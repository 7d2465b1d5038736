"""What a store may contain although no server can like it: each row is made by the API, and repaired with kubectl."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.certificates import self_signed
from tests.security.built_in import Admin
from tests.waiting import until

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
MAPS = "/api/v1/namespaces/{}/configmaps"
VIEW = f"{RBAC}/clusterroles/view"
NOBODY = "https://127.0.0.1:1/"  # refuses connections
_EVERYTHING = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"], "scope": "*"}
_FINALIZED = {"metadata": {"name": "kept", "finalizers": ["example.com/kept"]}}


class Row(NamedTuple):
    """``make`` uses a server with the flags ``before``; the store is hostile to one with ``flags``.

    What is ``broken`` fails until the ``repair``: command lines of kubectl, and a start without flags.  Paths in ``returning``
    are created or corrected by the server after that.
    """

    make: Callable[[Admin, str], object]
    repair: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    broken: frozenset[str] = frozenset()
    returning: tuple[str, ...] = ()


def webhook(kind: str, url: str) -> Callable[[Admin, str], object]:
    """For all requests.  The next start has an object to create."""

    def make(admin: Admin, silent: str) -> None:
        hook = {
            "name": "hostile.example.com",
            "clientConfig": {"url": silent if url == "silent" else url},
            "rules": [_EVERYTHING],
            "failurePolicy": "Fail",
            "timeoutSeconds": 6,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        admin.delete(VIEW)
        admin.create(f"{ADMISSION}/{kind}", {"metadata": {"name": "hostile"}, "webhooks": [hook]})

    return make


def policies(admin: Admin, silent: str) -> None:
    """One that denies all, one that fails."""
    constraints = {"resourceRules": [_EVERYTHING]}
    metadata = {"name": "hostile"}
    binding = {"policyName": "hostile"}
    admin.create(
        f"{ADMISSION}/mutatingadmissionpolicies",
        {
            "metadata": metadata,
            "spec": {
                "matchConstraints": constraints,
                "reinvocationPolicy": "Never",
                "failurePolicy": "Fail",
                "mutations": [
                    {
                        "patchType": "JSONPatch",
                        "jsonPatch": {
                            "expression": '[JSONPatch{op: "add", path: "/metadata/labels", value: {"a": string(1 / 0)}}]'
                        },
                    }
                ],
            },
        },
    )
    admin.create(f"{ADMISSION}/mutatingadmissionpolicybindings", {"metadata": metadata, "spec": binding})
    admin.create(
        f"{ADMISSION}/validatingadmissionpolicies",
        {
            "metadata": metadata,
            "spec": {
                "matchConstraints": constraints,
                "failurePolicy": "Fail",
                "validations": [{"expression": "false"}],
            },
        },
    )
    admin.create(
        f"{ADMISSION}/validatingadmissionpolicybindings",
        {"metadata": metadata, "spec": {**binding, "validationActions": ["Deny"]}},
    )


def quotas(admin: Admin, silent: str) -> None:
    """Of nothing, in the namespaces in which the server writes; what it keeps there is missing."""
    names = ("configmaps", "secrets", "services", "serviceaccounts", "endpoints")
    hard = {f"count/{name}": "0" for name in names}
    hard |= {"count/leases.coordination.k8s.io": "0", "count/endpointslices.discovery.k8s.io": "0"}
    for namespace in ("kube-system", "default"):
        admin.create(
            f"/api/v1/namespaces/{namespace}/resourcequotas", {"metadata": {"name": "hostile"}, "spec": {"hard": hard}}
        )
    for lease in admin.names(LEASES):
        admin.delete(f"{LEASES}/{lease}")
    admin.delete(f"{MAPS.format('kube-system')}/extension-apiserver-authentication")
    admin.delete("/api/v1/namespaces/default/services/kubernetes")


def terminating(admin: Admin, silent: str) -> None:
    for namespace in ("kube-system", "default"):
        admin.create(MAPS.format(namespace), _FINALIZED)
        admin.delete(f"/api/v1/namespaces/{namespace}")


def empty_policy(admin: Admin, silent: str) -> None:
    """No role of the system has a rule, no binding a subject, and half of them may not be completed."""
    for plural, part in (("clusterroles", "rules"), ("clusterrolebindings", "subjects")):
        for number, each in enumerate(admin.names(f"{RBAC}/{plural}")):
            metadata: dict[str, Any] = {}
            if number % 2:
                metadata["annotations"] = {"rbac.authorization.kubernetes.io/autoupdate": "false"}
            admin.change(f"{RBAC}/{plural}/{each}", {"metadata": metadata, part: []})


def flow_control(admin: Admin, silent: str) -> None:
    """Mandatory levels are edited, others are gone, and nearly all requests belong to a level without seats."""
    admin.change(f"{FLOW}/prioritylevelconfigurations/exempt", {"spec": {"exempt": {"lendablePercent": 100}}})
    for plural in ("prioritylevelconfigurations", "flowschemas"):
        for each in admin.names(f"{FLOW}/{plural}"):
            admin.delete(f"{FLOW}/{plural}/{each}")
    none = {"nominalConcurrencyShares": 0, "lendablePercent": 0, "limitResponse": {"type": "Reject"}}
    admin.create(
        f"{FLOW}/prioritylevelconfigurations",
        {"metadata": {"name": "hostile"}, "spec": {"type": "Limited", "limited": none}},
    )
    rules = {
        "subjects": [
            {"kind": "Group", "group": {"name": group}} for group in ("system:authenticated", "system:unauthenticated")
        ],
        "resourceRules": [
            {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
        ],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }
    spec = {"matchingPrecedence": 2, "priorityLevelConfiguration": {"name": "hostile"}, "rules": [rules]}
    admin.create(f"{FLOW}/flowschemas", {"metadata": {"name": "hostile"}, "spec": spec})


def nowhere(admin: Admin, silent: str) -> None:
    """All APIServices name a Service that does not exist, but that of the core group, which may not."""
    service = {"namespace": "nowhere", "name": "nowhere", "port": 443}
    for each in admin.names(SERVICES):
        if each != "v1.":
            admin.change(f"{SERVICES}/{each}", {"spec": {"service": service, "insecureSkipTLSVerify": True}})


def foreign(admin: Admin, silent: str) -> None:
    """The same, and they are not the server's any more: apps and the definitions of custom resources."""
    for name in ("v1.apps", "v1.apiextensions.k8s.io", "v1.apiregistration.k8s.io"):
        service = {"namespace": "nowhere", "name": "nowhere", "port": 443}
        spec = {"group": name[3:], "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10}
        spec |= {"service": service, "insecureSkipTLSVerify": True}
        admin.replace(f"{SERVICES}/{name}", {"metadata": {"name": name}, "spec": spec})


def dead_conversion(admin: Admin, silent: str) -> None:
    """Objects in a version from which only a webhook converts that nobody answers."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in ("v1", "v2")]
    names = {"plural": "widgets", "kind": "Widget"}
    client = {"clientConfig": {"url": NOBODY}, "conversionReviewVersions": ["v1"]}
    admin.create(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": names,
                "versions": versions,
                "conversion": {"strategy": "Webhook", "webhook": client},
            },
        },
    )
    owner = admin.create(MAPS.format("default"), {"metadata": {"name": "owner"}})["metadata"]["uid"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner}
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a", "ownerReferences": [reference]}}
    until(lambda: admin.ask("POST", "/apis/example.com/v1/namespaces/default/widgets", body)[0] == 201)
    versions[0]["storage"], versions[1]["storage"] = False, True
    admin.change(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com",
        {"spec": {"versions": versions}},
    )


def leases(admin: Admin, silent: str) -> None:
    """Held by others until the end of days, or without any content."""
    held = {
        "holderIdentity": "another",
        "leaseDurationSeconds": 2_000_000_000,
        "acquireTime": "2099-01-01T00:00:00.000000Z",
        "renewTime": "2099-01-01T00:00:00.000000Z",
    }
    for lease in admin.names(LEASES):
        admin.replace(f"{LEASES}/{lease}", {"metadata": {"name": lease}})
    for name in ("kapi-controller-manager", "kube-controller-manager", "kube-scheduler"):
        admin.replace(f"{LEASES}/{name}", {"metadata": {"name": name}, "spec": held})


def own_objects(admin: Admin, silent: str) -> None:
    """What the server keeps has other contents, and cannot be changed back."""
    service = "/api/v1/namespaces/default/services/kubernetes"
    outside = {"type": "ExternalName", "externalName": "example.com"}
    admin.replace(service, {"metadata": {"name": "kubernetes"}, "spec": outside})
    slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"
    admin.replace(slices, {"metadata": {"name": "kubernetes"}, "addressType": "FQDN", "endpoints": []})
    maps, content = MAPS.format("kube-system"), {"data": {"since": "never"}, "immutable": True}
    trust, tracking = "extension-apiserver-authentication", "kube-apiserver-legacy-service-account-token-tracking"
    for name in (trust, tracking):  # created again when they are deleted
        until(lambda path=f"{maps}/{name}": admin.ask("GET", path)[0] == 200)
        admin.change(f"{maps}/{name}", content)
    for each in admin.names("/apis/networking.k8s.io/v1/ipaddresses"):
        admin.delete(f"/apis/networking.k8s.io/v1/ipaddresses/{each}")


def previews(admin: Admin, silent: str) -> None:
    """Objects of features that are switched off afterwards."""
    certificate, _ = self_signed("hostile")
    lease = {
        "leaseName": "hostile",
        "binaryVersion": "1.36.0",
        "emulationVersion": "1.36.0",
        "strategy": "OldestEmulationVersion",
    }
    taint = {"key": "example.com/a", "value": "b", "effect": "NoExecute"}
    for path, name, spec in (
        ("certificates.k8s.io/v1beta1/clustertrustbundles", "hostile", {"trustBundle": certificate.decode()}),
        ("coordination.k8s.io/v1beta1/namespaces/kube-system/leasecandidates", "hostile", lease),
        ("storagemigration.k8s.io/v1beta1/storageversionmigrations", "hostile", {"resource": {"resource": "pods"}}),
        ("resource.k8s.io/v1beta2/devicetaintrules", "hostile", {"taint": taint}),
        ("resource.k8s.io/v1alpha3/resourcepoolstatusrequests", "hostile", {"driver": "example.com", "limit": 1}),
    ):
        admin.create(f"/apis/{path}", {"metadata": {"name": name}, "spec": spec})


ROWS = {
    "a validating webhook that nobody answers": Row(
        webhook("validatingwebhookconfigurations", NOBODY),
        ("delete validatingwebhookconfiguration hostile",),
        returning=(VIEW,),
    ),
    "a mutating webhook that nobody answers": Row(
        webhook("mutatingwebhookconfigurations", NOBODY),
        ("delete mutatingwebhookconfiguration hostile",),
        returning=(VIEW,),
    ),
    "a webhook that keeps silent": Row(
        webhook("validatingwebhookconfigurations", "silent"),
        ("delete validatingwebhookconfiguration hostile",),
        returning=(VIEW,),
    ),
    "policies that deny everything": Row(
        policies,
        ("delete validatingadmissionpolicybinding hostile", "delete mutatingadmissionpolicybinding hostile"),
    ),
    "admission that denies everything": Row(
        lambda admin, silent: admin.delete(VIEW),
        flags=("--enable-admission-plugins=AlwaysDeny",),
        returning=(VIEW,),
    ),
    "quotas of nothing": Row(
        quotas, ("delete resourcequota hostile -n kube-system", "delete resourcequota hostile -n default")
    ),
    "namespaces in deletion": Row(
        terminating,
        tuple(
            f'patch configmap kept -n {namespace} --type=merge -p {{"metadata":{{"finalizers":null}}}}'
            for namespace in ("kube-system", "default")
        )
        + (
            "wait namespace/kube-system namespace/default --for=delete",
            "create namespace kube-system",
            "create namespace default",
        ),
        before=("--disable-admission-plugins=NamespaceLifecycle",),
    ),
    "system roles and bindings without content": Row(
        empty_policy,
        (
            "annotate clusterrole view edit admin cluster-admin --overwrite rbac.authorization.kubernetes.io/autoupdate=true",
            'patch clusterrolebinding cluster-admin --type=merge -p {"subjects":[{"kind":"Group","name":"system:masters"}]}',
        ),
    ),
    "priority levels without seats": Row(
        flow_control, ("delete flowschema hostile", "delete prioritylevelconfiguration hostile")
    ),
    "APIServices that point nowhere": Row(nowhere, ("get --raw /apis/apps/v1",)),
    "APIServices of others that point nowhere": Row(
        foreign,
        ("delete apiservice v1.apps v1.apiextensions.k8s.io v1.apiregistration.k8s.io",),
        broken=frozenset(("/apis/apps/v1", "/apis/apiextensions.k8s.io/v1")),
    ),
    "a conversion webhook that nobody answers": Row(
        dead_conversion,
        (
            'patch crd widgets.example.com --type=merge -p {"spec":{"conversion":{"strategy":"None","webhook":null}}}',
            "delete widget a",
            "delete crd widgets.example.com",
        ),
        broken=frozenset(("/apis/example.com/v2/widgets?limit=1",)),
    ),
    "leases that others hold": Row(leases, ("delete leases --all -n kube-system",)),
    "own objects with other content": Row(
        own_objects,
        (
            "delete service kubernetes",
            "delete endpointslice kubernetes",
            "delete configmap -n kube-system extension-apiserver-authentication",
        ),
    ),
    "objects of features that are off": Row(
        previews,
        before=("--runtime-config=api/all=true", "--feature-gates=AllAlpha=true,AllBeta=true"),
        repair=("get namespaces",),
    ),
}
