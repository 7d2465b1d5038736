"""The default roles of users, components and controllers (upstream: ``bootstrappolicy/{policy,controller_policy}.go``).

Rules are written as words: verbs, groups, resources and names ("core" is the group "").
"""

from __future__ import annotations

from kapi.machinery.tree import Object

GROUP = "rbac.authorization.k8s.io"
_API_VERSION = f"{GROUP}/v1"
_AGGREGATE = f"{GROUP}/aggregate-to-"
AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
BOOTSTRAPPING = "kubernetes.io/bootstrapping"


def _metadata(name: str, namespace: str = "") -> Object:
    metadata: Object = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = {BOOTSTRAPPING: "rbac-defaults"}
    metadata["annotations"] = {AUTOUPDATE: "true"}
    return metadata


def _rule(words: tuple[str, ...]) -> Object:
    """(verbs, URLs) or (verbs, groups, resources[, names])."""
    verbs = words[0].split()
    if len(words) == 2:
        return {"verbs": verbs, "nonResourceURLs": words[1].split()}
    rule: Object = {
        "verbs": verbs,
        "apiGroups": ["" if group == "core" else group for group in words[1].split()],
        "resources": words[2].split(),
    }
    if len(words) > 3:
        rule["resourceNames"] = words[3].split()
    return rule


def cluster_role(name: str, *rules: tuple[str, ...], aggregate_to: str = "", aggregates: str = "") -> Object:
    """A ClusterRole; ``aggregates`` are the names of the aggregations it gathers, ``aggregate_to`` the one it feeds."""
    role: Object = {"kind": "ClusterRole", "apiVersion": _API_VERSION, "metadata": _metadata(name)}
    role["rules"] = [_rule(rule) for rule in rules] or None
    if aggregate_to:
        role["metadata"]["labels"][_AGGREGATE + aggregate_to] = "true"
    if aggregates:
        role["aggregationRule"] = {
            "clusterRoleSelectors": [{"matchLabels": {_AGGREGATE + each: "true"}} for each in aggregates.split()]
        }
    return role


def namespaced_role(namespace: str, name: str, *rules: tuple[str, ...]) -> Object:
    return {
        "kind": "Role",
        "apiVersion": _API_VERSION,
        "metadata": _metadata(name, namespace),
        "rules": [_rule(rule) for rule in rules],
    }


def _binding(kind: str, metadata: Object, role_kind: str, role: str, subjects: tuple[Object, ...]) -> Object:
    binding: Object = {"kind": kind, "apiVersion": _API_VERSION, "metadata": metadata}
    if subjects:
        binding["subjects"] = list(subjects)
    binding["roleRef"] = {"apiGroup": GROUP, "kind": role_kind, "name": role}
    return binding


def cluster_binding(name: str, role_kind: str, role: str, *subjects: Object) -> Object:
    return _binding("ClusterRoleBinding", _metadata(name), role_kind, role, subjects)


def namespaced_binding(namespace: str, name: str, role_kind: str, role: str, *subjects: Object) -> Object:
    return _binding("RoleBinding", _metadata(name, namespace), role_kind, role, subjects)


def user(name: str) -> Object:
    return {"kind": "User", "apiGroup": GROUP, "name": name}


def group(name: str) -> Object:
    return {"kind": "Group", "apiGroup": GROUP, "name": name}


def account(name: str, namespace: str) -> Object:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


CLUSTER_ROLES = (
    cluster_role(
        "admin",
        aggregates="admin",
    ),
    cluster_role(
        "cluster-admin",
        ("*", "*", "*"),
        ("*", "*"),
    ),
    cluster_role(
        "edit",
        aggregate_to="admin",
        aggregates="edit",
    ),
    cluster_role(
        "system:aggregate-to-admin",
        ("create", "authorization.k8s.io", "localsubjectaccessreviews"),
        (
            "create delete deletecollection get list patch update watch",
            "rbac.authorization.k8s.io",
            "rolebindings roles",
        ),
        aggregate_to="admin",
    ),
    cluster_role(
        "system:aggregate-to-edit",
        ("get list watch", "core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
        ("impersonate", "core", "serviceaccounts"),
        (
            "create delete deletecollection patch update",
            "core",
            "pods pods/attach pods/exec pods/portforward pods/proxy",
        ),
        ("create", "core", "pods/eviction"),
        (
            "create delete deletecollection patch update",
            "core",
            (
                "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets "
                "serviceaccounts services services/proxy"
            ),
        ),
        ("create", "core", "serviceaccounts/token"),
        ("create delete deletecollection patch update", "core events.k8s.io", "events"),
        (
            "create delete deletecollection patch update",
            "apps",
            (
                "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale "
                "statefulsets statefulsets/scale"
            ),
        ),
        ("create delete deletecollection patch update", "autoscaling", "horizontalpodautoscalers"),
        ("create delete deletecollection patch update", "batch", "cronjobs jobs"),
        (
            "create delete deletecollection patch update",
            "extensions",
            (
                "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies "
                "replicasets replicasets/scale replicationcontrollers/scale"
            ),
        ),
        ("create delete deletecollection patch update", "policy", "poddisruptionbudgets"),
        ("create delete deletecollection patch update", "networking.k8s.io", "ingresses networkpolicies"),
        ("create delete deletecollection get list patch update watch", "coordination.k8s.io", "leases"),
        ("create delete deletecollection patch update", "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
        aggregate_to="edit",
    ),
    cluster_role(
        "system:aggregate-to-view",
        (
            "get list watch",
            "core",
            (
                "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods "
                "replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status"
            ),
        ),
        (
            "get list watch",
            "core",
            (
                "bindings limitranges namespaces/status pods/log pods/status replicationcontrollers/status "
                "resourcequotas resourcequotas/status"
            ),
        ),
        ("get list watch", "core", "namespaces"),
        ("get list watch", "core events.k8s.io", "events"),
        ("get list watch", "discovery.k8s.io", "endpointslices"),
        (
            "get list watch",
            "apps",
            (
                "controllerrevisions daemonsets daemonsets/status deployments deployments/scale "
                "deployments/status replicasets replicasets/scale replicasets/status statefulsets "
                "statefulsets/scale statefulsets/status"
            ),
        ),
        ("get list watch", "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
        ("get list watch", "batch", "cronjobs cronjobs/status jobs jobs/status"),
        (
            "get list watch",
            "extensions",
            (
                "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses "
                "ingresses/status networkpolicies replicasets replicasets/scale replicasets/status "
                "replicationcontrollers/scale"
            ),
        ),
        ("get list watch", "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
        ("get list watch", "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
        ("get list watch", "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
        aggregate_to="view",
    ),
    cluster_role(
        "system:auth-delegator",
        ("create", "authentication.k8s.io", "tokenreviews"),
        ("create", "authorization.k8s.io", "subjectaccessreviews"),
    ),
    cluster_role(
        "system:basic-user",
        ("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
        ("create", "authentication.k8s.io", "selfsubjectreviews"),
    ),
    cluster_role(
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        ("create", "certificates.k8s.io", "certificatesigningrequests/nodeclient"),
    ),
    cluster_role(
        "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        ("create", "certificates.k8s.io", "certificatesigningrequests/selfnodeclient"),
    ),
    cluster_role(
        "system:certificates.k8s.io:kube-apiserver-client-approver",
        ("approve", "certificates.k8s.io", "signers", "kubernetes.io/kube-apiserver-client"),
    ),
    cluster_role(
        "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver",
        ("approve", "certificates.k8s.io", "signers", "kubernetes.io/kube-apiserver-client-kubelet"),
    ),
    cluster_role(
        "system:certificates.k8s.io:kubelet-serving-approver",
        ("approve", "certificates.k8s.io", "signers", "kubernetes.io/kubelet-serving"),
    ),
    cluster_role(
        "system:certificates.k8s.io:legacy-unknown-approver",
        ("approve", "certificates.k8s.io", "signers", "kubernetes.io/legacy-unknown"),
    ),
    cluster_role(
        "system:discovery",
        ("get", "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/"),
    ),
    cluster_role(
        "system:heapster",
        ("get list watch", "core", "events namespaces nodes pods"),
        ("get list watch", "extensions", "deployments"),
    ),
    cluster_role(
        "system:kube-aggregator",
        ("get list watch", "core", "endpoints services"),
    ),
    cluster_role(
        "system:kube-controller-manager",
        ("create patch update", "core events.k8s.io", "events"),
        ("create", "coordination.k8s.io", "leases"),
        ("get update", "coordination.k8s.io", "leases", "kube-controller-manager"),
        ("create", "core", "secrets serviceaccounts"),
        ("delete", "core", "secrets"),
        ("get", "core", "configmaps namespaces secrets serviceaccounts"),
        ("update", "core", "secrets serviceaccounts"),
        ("create", "authentication.k8s.io", "tokenreviews"),
        ("create", "authorization.k8s.io", "subjectaccessreviews"),
        ("list watch", "*", "*"),
        ("create", "core", "serviceaccounts/token"),
    ),
    cluster_role(
        "system:kube-dns",
        ("list watch", "core", "endpoints services"),
    ),
    cluster_role(
        "system:kube-scheduler",
        ("create patch update", "core events.k8s.io", "events"),
        ("create", "coordination.k8s.io", "leases"),
        ("get list update watch", "coordination.k8s.io", "leases", "kube-scheduler"),
        ("create delete deletecollection get list patch update watch", "coordination.k8s.io", "leasecandidates"),
        ("get list watch", "core", "nodes"),
        ("delete get list watch", "core", "pods"),
        ("create", "core", "bindings pods/binding"),
        ("patch update", "core", "pods/status"),
        ("get list watch", "core", "replicationcontrollers services"),
        ("get list watch", "apps extensions", "replicasets"),
        ("get list watch", "apps", "statefulsets"),
        ("get list watch", "policy", "poddisruptionbudgets"),
        ("get list watch", "core", "persistentvolumeclaims persistentvolumes"),
        ("create", "authentication.k8s.io", "tokenreviews"),
        ("create", "authorization.k8s.io", "subjectaccessreviews"),
        ("get list watch", "storage.k8s.io", "csinodes"),
        ("get list watch", "storage.k8s.io", "volumeattachments"),
        ("get list watch", "core", "namespaces"),
        ("get list watch", "storage.k8s.io", "csidrivers"),
        ("get list watch", "storage.k8s.io", "csistoragecapacities"),
        ("get list watch", "resource.k8s.io", "deviceclasses"),
        ("get list patch update watch", "resource.k8s.io", "resourceclaims"),
        ("get list patch update watch", "resource.k8s.io", "resourceclaims/status"),
        ("update", "core", "pods/finalizers"),
        ("get list watch", "resource.k8s.io", "resourceslices"),
        ("create delete", "resource.k8s.io", "resourceclaims"),
        ("patch update", "resource.k8s.io", "resourceclaims/binding"),
    ),
    cluster_role(
        "system:kubelet-api-admin",
        ("get list watch", "core", "nodes"),
        ("proxy", "core", "nodes"),
        ("*", "core", "nodes/log nodes/metrics nodes/proxy nodes/stats"),
        ("*", "core", "nodes/configz nodes/healthz nodes/pods"),
    ),
    cluster_role(
        "system:monitoring",
        ("get", "/flagz /healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/* /statusz"),
        ("get", "core", "nodes/metrics"),
    ),
    cluster_role(
        "system:node",
        ("create", "authentication.k8s.io", "tokenreviews"),
        ("create", "authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews"),
        ("get list watch", "core", "services"),
        ("create get list watch", "core", "nodes"),
        ("patch update", "core", "nodes/status"),
        ("patch update", "core", "nodes"),
        ("create patch update", "core events.k8s.io", "events"),
        ("get list watch", "core", "pods"),
        ("create delete", "core", "pods"),
        ("patch update", "core", "pods/status"),
        ("create", "core", "pods/eviction"),
        ("get list watch", "core", "configmaps secrets"),
        ("get", "core", "persistentvolumeclaims persistentvolumes"),
        ("get", "core", "endpoints"),
        ("create get list watch", "certificates.k8s.io", "certificatesigningrequests"),
        ("create delete get patch update", "coordination.k8s.io", "leases"),
        ("get", "storage.k8s.io", "volumeattachments"),
        ("create", "core", "serviceaccounts/token"),
        ("get patch update", "core", "persistentvolumeclaims/status"),
        ("get list watch", "storage.k8s.io", "csidrivers"),
        ("create delete get patch update", "storage.k8s.io", "csinodes"),
        ("get list watch", "node.k8s.io", "runtimeclasses"),
        ("get", "resource.k8s.io", "resourceclaims"),
        ("deletecollection", "resource.k8s.io", "resourceslices"),
        ("get", "core", "serviceaccounts"),
    ),
    cluster_role(
        "system:node-bootstrapper",
        ("create get list watch", "certificates.k8s.io", "certificatesigningrequests"),
    ),
    cluster_role(
        "system:node-problem-detector",
        ("get", "core", "nodes"),
        ("patch", "core", "nodes/status"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:node-proxier",
        ("list watch", "core", "endpoints services"),
        ("get list watch", "core", "nodes"),
        ("create patch update", "core events.k8s.io", "events"),
        ("list watch", "networking.k8s.io", "servicecidrs"),
        ("list watch", "discovery.k8s.io", "endpointslices"),
    ),
    cluster_role(
        "system:persistent-volume-provisioner",
        ("create delete get list watch", "core", "persistentvolumes"),
        ("get list update watch", "core", "persistentvolumeclaims"),
        ("get list watch", "storage.k8s.io", "storageclasses"),
        ("watch", "core", "events"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:public-info-viewer",
        ("get", "/healthz /livez /readyz /version /version/"),
    ),
    cluster_role(
        "system:service-account-issuer-discovery",
        (
            "get",
            ("/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/"),
        ),
    ),
    cluster_role(
        "system:volume-scheduler",
        ("get list patch update watch", "core", "persistentvolumes"),
        ("get list watch", "storage.k8s.io", "storageclasses"),
        ("get list patch update watch", "core", "persistentvolumeclaims"),
    ),
    cluster_role(
        "view",
        aggregate_to="edit",
        aggregates="view",
    ),
)

ROLES = (
    namespaced_role(
        "kube-public",
        "system:controller:bootstrap-signer",
        ("get list watch", "core", "configmaps"),
        ("update", "core", "configmaps", "cluster-info"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    namespaced_role(
        "kube-system",
        "extension-apiserver-authentication-reader",
        ("get list watch", "core", "configmaps", "extension-apiserver-authentication"),
    ),
    namespaced_role(
        "kube-system",
        "system::leader-locking-kube-controller-manager",
        ("create get list update watch", "coordination.k8s.io", "leases"),
        ("create get list update watch", "coordination.k8s.io", "leasecandidates"),
    ),
    namespaced_role(
        "kube-system",
        "system::leader-locking-kube-scheduler",
        ("create get list update watch", "coordination.k8s.io", "leases"),
        ("create get list update watch", "coordination.k8s.io", "leasecandidates"),
    ),
    namespaced_role(
        "kube-system",
        "system:controller:bootstrap-signer",
        ("get list watch", "core", "secrets"),
    ),
    namespaced_role(
        "kube-system",
        "system:controller:cloud-provider",
        ("create get list watch", "core", "configmaps"),
    ),
    namespaced_role(
        "kube-system",
        "system:controller:token-cleaner",
        ("delete get list watch", "core", "secrets"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
)


CONTROLLER_ROLES = (
    cluster_role(
        "system:controller:attachdetach-controller",
        ("list watch", "core", "persistentvolumeclaims persistentvolumes"),
        ("get list watch", "core", "nodes"),
        ("patch update", "core", "nodes/status"),
        ("list watch", "core", "pods"),
        ("create patch update", "core events.k8s.io", "events"),
        ("create delete get list watch", "storage.k8s.io", "volumeattachments"),
        ("get list watch", "storage.k8s.io", "csidrivers"),
        ("get list watch", "storage.k8s.io", "csinodes"),
    ),
    cluster_role(
        "system:controller:certificate-controller",
        ("delete get list watch", "certificates.k8s.io", "certificatesigningrequests"),
        ("update", "certificates.k8s.io", "certificatesigningrequests/approval certificatesigningrequests/status"),
        ("approve", "certificates.k8s.io", "signers", "kubernetes.io/kube-apiserver-client-kubelet"),
        (
            "sign",
            "certificates.k8s.io",
            "signers",
            (
                "kubernetes.io/kube-apiserver-client kubernetes.io/kube-apiserver-client-kubelet "
                "kubernetes.io/kubelet-serving kubernetes.io/legacy-unknown"
            ),
        ),
        ("create", "authorization.k8s.io", "subjectaccessreviews"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:controller:clusterrole-aggregation-controller",
        ("escalate get list patch update watch", "rbac.authorization.k8s.io", "clusterroles"),
    ),
    cluster_role(
        "system:controller:cronjob-controller",
        ("get list update watch", "batch", "cronjobs"),
        ("create delete get list patch update watch", "batch", "jobs"),
        ("update", "batch", "cronjobs/status"),
        ("update", "batch", "cronjobs/finalizers"),
        ("delete list watch", "core", "pods"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:controller:daemon-set-controller",
        ("get list watch", "apps extensions", "daemonsets"),
        ("update", "apps extensions", "daemonsets/status"),
        ("update", "apps extensions", "daemonsets/finalizers"),
        ("list watch", "core", "nodes"),
        ("create delete list patch watch", "core", "pods"),
        ("create", "core", "pods/binding"),
        ("create delete get list patch update watch", "apps", "controllerrevisions"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:controller:deployment-controller",
        ("get list update watch", "apps extensions", "deployments"),
        ("update", "apps extensions", "deployments/status"),
        ("update", "apps extensions", "deployments/finalizers"),
        ("create delete get list patch update watch", "apps extensions", "replicasets"),
        ("get list update watch", "core", "pods"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:controller:device-taint-eviction-controller",
        ("delete get list watch", "core", "pods"),
        ("patch update", "core", "pods/status"),
        ("get list watch", "resource.k8s.io", "resourceclaims"),
        ("get list watch", "resource.k8s.io", "resourceslices"),
        ("get list watch", "resource.k8s.io", "deviceclasses"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:controller:disruption-controller",
        ("get list watch", "apps extensions", "deployments"),
        ("get list watch", "apps extensions", "replicasets"),
        ("get list watch", "core", "replicationcontrollers"),
        ("get list watch", "policy", "poddisruptionbudgets"),
        ("get list watch", "apps", "statefulsets"),
        ("update", "policy", "poddisruptionbudgets/status"),
        ("patch update", "core", "pods/status"),
        ("get", "*", "*/scale"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:controller:endpoint-controller",
        ("get list watch", "core", "pods services"),
        ("create delete get list update watch", "core", "endpoints"),
        ("create", "core", "endpoints/restricted"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:controller:endpointslice-controller",
        ("get list watch", "core", "nodes pods services"),
        ("update", "core", "services/finalizers"),
        ("create delete get list update watch", "discovery.k8s.io", "endpointslices"),
        ("create", "discovery.k8s.io", "endpointslices/restricted"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:controller:endpointslicemirroring-controller",
        ("get list watch", "core", "endpoints services"),
        ("update", "core", "services/finalizers"),
        ("update", "core", "endpoints/finalizers"),
        ("create delete get list update watch", "discovery.k8s.io", "endpointslices"),
        ("create", "discovery.k8s.io", "endpointslices/restricted"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:controller:ephemeral-volume-controller",
        ("get list watch", "core", "pods"),
        ("update", "core", "pods/finalizers"),
        ("create get list watch", "core", "persistentvolumeclaims"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:controller:expand-controller",
        ("get list patch update watch", "core", "persistentvolumes"),
        ("patch update", "core", "persistentvolumeclaims/status"),
        ("get list watch", "core", "persistentvolumeclaims"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:controller:generic-garbage-collector",
        ("delete get list patch update watch", "*", "*"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:controller:horizontal-pod-autoscaler",
        ("get list watch", "autoscaling", "horizontalpodautoscalers"),
        ("update", "autoscaling", "horizontalpodautoscalers/status"),
        ("get update", "*", "*/scale"),
        ("list watch", "core", "pods"),
        ("list watch", "metrics.k8s.io", "pods"),
        ("get list watch", "custom.metrics.k8s.io", "*"),
        ("get list watch", "external.metrics.k8s.io", "*"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:controller:job-controller",
        ("get list patch update watch", "batch", "jobs"),
        ("update", "batch", "jobs/status"),
        ("update", "batch", "jobs/finalizers"),
        ("create delete list patch watch", "core", "pods"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:controller:legacy-service-account-token-cleaner",
        ("get", "core", "configmaps", "kube-apiserver-legacy-service-account-token-tracking"),
        ("delete patch", "core", "secrets"),
    ),
    cluster_role(
        "system:controller:namespace-controller",
        ("delete get list watch", "core", "namespaces"),
        ("update", "core", "namespaces/finalize namespaces/status"),
        ("delete deletecollection get list watch", "*", "*"),
    ),
    cluster_role(
        "system:controller:node-controller",
        ("delete get list patch update watch", "core", "nodes"),
        ("patch update", "core", "nodes/status"),
        ("patch update", "core", "pods/status"),
        ("delete get list watch", "core", "pods"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:controller:persistent-volume-binder",
        ("create delete get list update watch", "core", "persistentvolumes"),
        ("update", "core", "persistentvolumes/status"),
        ("get list update watch", "core", "persistentvolumeclaims"),
        ("update", "core", "persistentvolumeclaims/status"),
        ("create delete get list watch", "core", "pods"),
        ("get list watch", "storage.k8s.io", "storageclasses"),
        ("list watch", "core", "nodes"),
        ("create patch update", "core events.k8s.io", "events"),
        ("watch", "core", "events"),
    ),
    cluster_role(
        "system:controller:pod-garbage-collector",
        ("delete list watch", "core", "pods"),
        ("get list watch", "core", "nodes"),
        ("patch", "core", "pods/status"),
    ),
    cluster_role(
        "system:controller:pv-protection-controller",
        ("get list update watch", "core", "persistentvolumes"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:controller:pvc-protection-controller",
        ("get list update watch", "core", "persistentvolumeclaims"),
        ("update", "core", "persistentvolumeclaims/status"),
        ("get list watch", "core", "pods"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:controller:replicaset-controller",
        ("get list update watch", "apps extensions", "replicasets"),
        ("update", "apps extensions", "replicasets/status"),
        ("update", "apps extensions", "replicasets/finalizers"),
        ("create delete list patch watch", "core", "pods"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:controller:replication-controller",
        ("get list update watch", "core", "replicationcontrollers"),
        ("update", "core", "replicationcontrollers/status"),
        ("update", "core", "replicationcontrollers/finalizers"),
        ("create delete list patch watch", "core", "pods"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:controller:resource-claim-controller",
        ("get list watch", "core", "pods"),
        ("update", "core", "pods/finalizers"),
        ("create delete get list watch", "resource.k8s.io", "resourceclaims"),
        ("patch update", "resource.k8s.io", "resourceclaims resourceclaims/status"),
        ("patch update", "core", "pods/status"),
        ("create patch update", "core events.k8s.io", "events"),
        ("patch update", "resource.k8s.io", "resourceclaims/binding"),
    ),
    cluster_role(
        "system:controller:resourcequota-controller",
        ("list watch", "*", "*"),
        ("update", "core", "resourcequotas/status"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:controller:root-ca-cert-publisher",
        ("create update", "core", "configmaps"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:controller:route-controller",
        ("list watch", "core", "nodes"),
        ("patch", "core", "nodes/status"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:controller:selinux-warning-controller",
        ("create patch update", "core events.k8s.io", "events"),
        ("get list watch", "core", "persistentvolumes"),
        ("get list watch", "core", "persistentvolumeclaims"),
        ("get list watch", "core", "pods"),
        ("get list watch", "storage.k8s.io", "csidrivers"),
    ),
    cluster_role(
        "system:controller:service-account-controller",
        ("create", "core", "serviceaccounts"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:controller:service-cidrs-controller",
        ("get list patch update watch", "networking.k8s.io", "servicecidrs"),
        ("patch update", "networking.k8s.io", "servicecidrs/finalizers"),
        ("patch update", "networking.k8s.io", "servicecidrs/status"),
        ("get list watch", "networking.k8s.io", "ipaddresses"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:controller:service-controller",
        ("get list watch", "core", "services"),
        ("patch update", "core", "services/status"),
        ("list watch", "core", "nodes"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:controller:statefulset-controller",
        ("list watch", "core", "pods"),
        ("get list watch", "apps", "statefulsets"),
        ("update", "apps", "statefulsets/status"),
        ("update", "apps", "statefulsets/finalizers"),
        ("create delete get patch update", "core", "pods"),
        ("create delete get list patch update watch", "apps", "controllerrevisions"),
        ("create get list watch", "core", "persistentvolumeclaims"),
        ("delete update", "core", "persistentvolumeclaims"),
        ("update", "core", "pods/finalizers"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:controller:ttl-after-finished-controller",
        ("delete get list watch", "batch", "jobs"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:controller:ttl-controller",
        ("list patch update watch", "core", "nodes"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:controller:validatingadmissionpolicy-status-controller",
        ("get list watch", "admissionregistration.k8s.io", "validatingadmissionpolicies"),
        ("get patch update", "admissionregistration.k8s.io", "validatingadmissionpolicies/status"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
    cluster_role(
        "system:controller:volumeattributesclass-protection-controller",
        ("get list watch", "core", "persistentvolumeclaims"),
        ("get list watch", "core", "persistentvolumes"),
        ("get list update watch", "storage.k8s.io", "volumeattributesclasses"),
        ("create patch update", "core events.k8s.io", "events"),
    ),
)
