"""The default ClusterRoles and Roles of users and components (upstream: ``bootstrappolicy/policy.go``)."""

from __future__ import annotations

from kapi.authorization.rbac.bootstrap_table import cluster_role, namespaced_role

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
