"""The columns of every built-in table: names, types and descriptions as upstream prints them.

Upstream: ``pkg/printers/internalversion/printers.go``.  A data table: the cells are made in each resource's module.
A ``FieldText`` stands for a description that the type's field has, too.
"""

from __future__ import annotations

import functools

from kapi.resources.definition import Column, FieldText
from kapi.schema.builtin import field_texts

_NAME = (
    "Name must be unique within a namespace. Is required when creating resources, although some resources "
    "may allow a client to request the generation of an appropriate name automatically. Name is primarily "
    "intended for creation idempotence and configuration definition. Cannot be updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
)
_AGE = (
    "CreationTimestamp is a timestamp representing the server time when this object was created. It is not "
    "guaranteed to be set in happens-before order across separate operations. Clients may not set this "
    "value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for "
    "lists. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
)

NAME = Column("Name", "string", _NAME, "name")
AGE = Column("Age", "string", _AGE)

#: kind -> columns
COLUMNS: dict[str, tuple[Column, ...]] = {
    "CSIDriver": (
        NAME,
        Column(
            "AttachRequired",
            "boolean",
            FieldText("api.storage.v1.CSIDriverSpec", "attachRequired"),
        ),
        Column(
            "PodInfoOnMount",
            "boolean",
            FieldText("api.storage.v1.CSIDriverSpec", "podInfoOnMount"),
        ),
        Column(
            "StorageCapacity",
            "boolean",
            FieldText("api.storage.v1.CSIDriverSpec", "storageCapacity"),
        ),
        Column(
            "TokenRequests",
            "string",
            FieldText("api.storage.v1.CSIDriverSpec", "tokenRequests"),
        ),
        Column(
            "RequiresRepublish",
            "boolean",
            FieldText("api.storage.v1.CSIDriverSpec", "requiresRepublish"),
        ),
        Column(
            "Modes",
            "string",
            FieldText("api.storage.v1.CSIDriverSpec", "volumeLifecycleModes"),
        ),
        AGE,
    ),
    "CSINode": (
        NAME,
        Column("Drivers", "integer", "Drivers indicates the number of CSI drivers registered on the node"),
        AGE,
    ),
    "CSIStorageCapacity": (
        NAME,
        Column(
            "StorageClassName",
            "string",
            FieldText("api.storage.v1.CSIStorageCapacity", "storageClassName"),
        ),
        Column(
            "Capacity",
            "string",
            FieldText("api.storage.v1.CSIStorageCapacity", "capacity"),
        ),
    ),
    "CertificateSigningRequest": (
        NAME,
        AGE,
        Column(
            "SignerName",
            "string",
            "Requested signer for the request. It is a qualified name in the form: `scope-hostname.io/name`. "
            "If empty, it will be defaulted:\n 1. If it's a kubelet client certificate, it is assigned\n    "
            '"kubernetes.io/kube-apiserver-client-kubelet".\n 2. If it\'s a kubelet serving certificate, it '
            'is assigned\n    "kubernetes.io/kubelet-serving".\n 3. Otherwise, it is assigned '
            '"kubernetes.io/legacy-unknown".\nDistribution of trust for signers happens out of band. You '
            "can select on this field using `spec.signerName`.",
        ),
        Column("Requestor", "string", "Base64-encoded PKCS#10 CSR data"),
        Column(
            "RequestedDuration",
            "string",
            FieldText("api.certificates.v1.CertificateSigningRequestSpec", "expirationSeconds"),
        ),
        Column("Condition", "string", "Conditions applied to the request, such as approval or denial."),
    ),
    "ClusterRoleBinding": (
        NAME,
        Column(
            "Role",
            "string",
            "RoleRef can only reference a ClusterRole in the global namespace. If the RoleRef cannot be "
            "resolved, the Authorizer must return an error.",
        ),
        AGE,
        Column("Users", "string", "Users in the clusterRoleBinding", priority=1),
        Column("Groups", "string", "Groups in the clusterRoleBinding", priority=1),
        Column("ServiceAccounts", "string", "ServiceAccounts in the clusterRoleBinding", priority=1),
    ),
    "ComponentStatus": (
        NAME,
        Column("Status", "string", "Status of the component conditions"),
        Column("Message", "string", "Message of the component conditions"),
        Column("Error", "string", "Error of the component conditions"),
    ),
    "ConfigMap": (
        NAME,
        Column(
            "Data",
            "string",
            FieldText("api.core.v1.ConfigMap", "data"),
        ),
        AGE,
    ),
    "ControllerRevision": (
        NAME,
        Column("Controller", "string", "Controller of the object"),
        Column("Revision", "string", "Revision indicates the revision of the state represented by Data."),
        AGE,
    ),
    "CronJob": (
        NAME,
        Column("Schedule", "string", "The schedule in Cron format, see https://en.wikipedia.org/wiki/Cron."),
        Column(
            "Timezone",
            "string",
            FieldText("api.batch.v1.CronJobSpec", "timeZone"),
        ),
        Column(
            "Suspend",
            "boolean",
            FieldText("api.batch.v1.CronJobSpec", "suspend"),
        ),
        Column("Active", "integer", "A list of pointers to currently running jobs."),
        Column("Last Schedule", "string", "Information when was the last time the job was successfully scheduled."),
        AGE,
        Column("Containers", "string", "Names of each container in the template.", priority=1),
        Column("Images", "string", "Images referenced by each container in the template.", priority=1),
        Column(
            "Selector",
            "string",
            FieldText("api.batch.v1.JobSpec", "selector"),
            priority=1,
        ),
    ),
    "DaemonSet": (
        NAME,
        Column(
            "Desired",
            "integer",
            FieldText("api.apps.v1.DaemonSetStatus", "desiredNumberScheduled"),
        ),
        Column(
            "Current",
            "integer",
            FieldText("api.apps.v1.DaemonSetStatus", "currentNumberScheduled"),
        ),
        Column(
            "Ready",
            "integer",
            FieldText("api.apps.v1.DaemonSetStatus", "numberReady"),
        ),
        Column("Up-to-date", "integer", "The total number of nodes that are running updated daemon pod"),
        Column(
            "Available",
            "integer",
            FieldText("api.apps.v1.DaemonSetStatus", "numberAvailable"),
        ),
        Column(
            "Node Selector",
            "string",
            FieldText("api.core.v1.PodSpec", "nodeSelector"),
        ),
        AGE,
        Column("Containers", "string", "Names of each container in the template.", priority=1),
        Column("Images", "string", "Images referenced by each container in the template.", priority=1),
        Column(
            "Selector",
            "string",
            FieldText("api.apps.v1.DaemonSetSpec", "selector"),
            priority=1,
        ),
    ),
    "Deployment": (
        NAME,
        Column("Ready", "string", "Number of the pod with ready state"),
        Column(
            "Up-to-date",
            "string",
            FieldText("api.apps.v1.DeploymentStatus", "updatedReplicas"),
        ),
        Column(
            "Available",
            "string",
            FieldText("api.apps.v1.DeploymentStatus", "availableReplicas"),
        ),
        AGE,
        Column("Containers", "string", "Names of each container in the template.", priority=1),
        Column("Images", "string", "Images referenced by each container in the template.", priority=1),
        Column(
            "Selector",
            "string",
            FieldText("api.apps.v1.DeploymentSpec", "selector"),
            priority=1,
        ),
    ),
    "DeviceClass": (
        NAME,
        AGE,
    ),
    "EndpointSlice": (
        NAME,
        Column(
            "AddressType",
            "string",
            "addressType specifies the type of address carried by this EndpointSlice. All addresses in this "
            "slice must be the same type. This field is immutable after creation. The following address "
            "types are currently supported: * IPv4: Represents an IPv4 Address. * IPv6: Represents an IPv6 "
            "Address. * FQDN: Represents a Fully Qualified Domain Name. (Deprecated) The EndpointSlice "
            'controller only generates, and kube-proxy only processes, slices of addressType "IPv4" and '
            '"IPv6". No semantics are defined for the "FQDN" type.',
        ),
        Column(
            "Ports",
            "string",
            FieldText("api.discovery.v1.EndpointSlice", "ports"),
        ),
        Column(
            "Endpoints",
            "string",
            FieldText("api.discovery.v1.EndpointSlice", "endpoints"),
        ),
        AGE,
    ),
    "Endpoints": (
        NAME,
        Column(
            "Endpoints",
            "string",
            FieldText("api.core.v1.Endpoints", "subsets"),
        ),
        AGE,
    ),
    "Event": (
        Column("Last Seen", "string", "The time at which the most recent occurrence of this event was recorded."),
        Column("Type", "string", "Type of this event (Normal, Warning), new types could be added in the future"),
        Column(
            "Reason",
            "string",
            FieldText("api.core.v1.Event", "reason"),
        ),
        Column("Object", "string", "The object that this event is about."),
        Column(
            "Subobject",
            "string",
            FieldText("api.core.v1.ObjectReference", "fieldPath"),
            priority=1,
        ),
        Column(
            "Source",
            "string",
            FieldText("api.core.v1.Event", "source"),
            priority=1,
        ),
        Column("Message", "string", "A human-readable description of the status of this operation."),
        Column(
            "First Seen",
            "string",
            FieldText("api.core.v1.Event", "firstTimestamp"),
            priority=1,
        ),
        Column("Count", "string", "The number of times this event has occurred.", priority=1),
        Column("Name", "string", _NAME, format="name", priority=1),
    ),
    "FlowSchema": (
        NAME,
        Column(
            "PriorityLevel",
            "string",
            FieldText("api.flowcontrol.v1.PriorityLevelConfigurationReference", "name"),
        ),
        Column(
            "MatchingPrecedence",
            "string",
            FieldText("api.flowcontrol.v1.FlowSchemaSpec", "matchingPrecedence"),
        ),
        Column(
            "DistinguisherMethod",
            "string",
            FieldText("api.flowcontrol.v1.FlowSchemaSpec", "distinguisherMethod"),
        ),
        AGE,
        Column("MissingPL", "string", "references a broken or non-existent PriorityLevelConfiguration"),
    ),
    "HorizontalPodAutoscaler": (
        NAME,
        Column(
            "Reference",
            "string",
            FieldText("api.autoscaling.v2.HorizontalPodAutoscalerSpec", "scaleTargetRef"),
        ),
        Column(
            "Targets",
            "string",
            FieldText("api.autoscaling.v2.HorizontalPodAutoscalerSpec", "metrics"),
        ),
        Column(
            "MinPods",
            "string",
            FieldText("api.autoscaling.v1.HorizontalPodAutoscalerSpec", "minReplicas"),
        ),
        Column(
            "MaxPods",
            "string",
            FieldText("api.autoscaling.v2.HorizontalPodAutoscalerSpec", "maxReplicas"),
        ),
        Column(
            "Replicas",
            "string",
            FieldText("api.autoscaling.v2.HorizontalPodAutoscalerStatus", "currentReplicas"),
        ),
        AGE,
    ),
    "IPAddress": (
        NAME,
        Column(
            "ParentRef",
            "string",
            FieldText("api.networking.v1.IPAddressSpec", "parentRef"),
        ),
    ),
    "Ingress": (
        NAME,
        Column(
            "Class",
            "string",
            "The name of the IngressClass resource that should be used for additional configuration",
        ),
        Column("Hosts", "string", "Hosts that incoming requests are matched against before the ingress rule"),
        Column("Address", "string", "Address is a list containing ingress points for the load-balancer"),
        Column("Ports", "string", "Ports of TLS configurations that open"),
        AGE,
    ),
    "IngressClass": (
        NAME,
        Column("Controller", "string", "Controller that is responsible for handling this class"),
        Column("Parameters", "string", "A reference to a resource with additional parameters"),
        AGE,
    ),
    "Job": (
        NAME,
        Column("Status", "string", "Status of the job."),
        Column(
            "Completions",
            "string",
            FieldText("api.batch.v1.JobStatus", "succeeded"),
        ),
        Column("Duration", "string", "Time required to complete the job."),
        AGE,
        Column("Containers", "string", "Names of each container in the template.", priority=1),
        Column("Images", "string", "Images referenced by each container in the template.", priority=1),
        Column(
            "Selector",
            "string",
            FieldText("api.batch.v1.JobSpec", "selector"),
            priority=1,
        ),
    ),
    "ClusterTrustBundle": (
        NAME,
        Column(
            "SignerName",
            "string",
            FieldText("api.certificates.v1beta1.ClusterTrustBundleSpec", "signerName"),
        ),
    ),
    "DeviceTaintRule": (NAME, AGE),
    "ResourcePoolStatusRequest": (NAME, AGE),
    "PodGroup": (NAME, AGE),
    "Workload": (NAME, AGE),
    "PodCertificateRequest": (
        NAME,
        Column("PodName", "string", "podName is the name of the pod into which the certificate will be mounted."),
        Column(
            "ServiceAccountName",
            "string",
            "serviceAccountName is the name of the service account the pod is running as.",
        ),
        Column("NodeName", "string", "nodeName is the name of the node the pod is assigned to."),
        Column("SignerName", "string", "signerName indicates the requested signer."),
        Column("State", "string", "Is the request Pending, Issued, Denied, or Failed?"),
        AGE,
    ),
    "LeaseCandidate": (
        NAME,
        Column(
            "LeaseName",
            "string",
            FieldText("api.coordination.v1alpha2.LeaseCandidateSpec", "leaseName"),
        ),
        Column("BinaryVersion", "string", ""),
        Column("EmulationVersion", "string", ""),
        AGE,
    ),
    "StorageVersion": (
        NAME,
        Column(
            "CommonEncodingVersion",
            "string",
            FieldText("api.apiserverinternal.v1alpha1.StorageVersionStatus", "commonEncodingVersion"),
        ),
        Column("StorageVersions", "string", "storageVersions lists the reported versions per API server instance."),
        AGE,
    ),
    "StorageVersionMigration": (
        Column("Name", "string", _NAME),
        Column("Resource", "string", "Fully qualified resource to migrate"),
    ),
    "Lease": (
        NAME,
        Column(
            "Holder",
            "string",
            FieldText("api.coordination.v1.LeaseSpec", "holderIdentity"),
        ),
        AGE,
    ),
    "MutatingAdmissionPolicy": (
        NAME,
        Column(
            "Mutations",
            "integer",
            "Mutation indicates the number of mutations rules defined in this configuration",
        ),
        Column("ParamKind", "string", "ParamKind specifies the kind of resources used to parameterize this policy"),
        AGE,
    ),
    "MutatingAdmissionPolicyBinding": (
        NAME,
        Column("PolicyName", "string", "PolicyName indicates the policy definition which the policy binding binded to"),
        Column("ParamRef", "string", "ParamRef indicates the param resource which sets the configuration param"),
        AGE,
    ),
    "MutatingWebhookConfiguration": (
        NAME,
        Column("Webhooks", "integer", "Webhooks indicates the number of webhooks registered in this configuration"),
        AGE,
    ),
    "Namespace": (
        NAME,
        Column("Status", "string", "The status of the namespace"),
        AGE,
    ),
    "NetworkPolicy": (
        NAME,
        Column(
            "Pod-Selector",
            "string",
            FieldText("api.networking.v1.NetworkPolicySpec", "podSelector"),
        ),
        AGE,
    ),
    "Node": (
        NAME,
        Column("Status", "string", "The status of the node"),
        Column("Roles", "string", "The roles of the node"),
        AGE,
        Column("Version", "string", "Kubelet Version reported by the node."),
        Column(
            "Internal-IP",
            "string",
            FieldText("api.core.v1.NodeStatus", "addresses"),
            priority=1,
        ),
        Column(
            "External-IP",
            "string",
            FieldText("api.core.v1.NodeStatus", "addresses"),
            priority=1,
        ),
        Column(
            "OS-Image",
            "string",
            FieldText("api.core.v1.NodeSystemInfo", "osImage"),
            priority=1,
        ),
        Column(
            "Kernel-Version",
            "string",
            "Kernel Version reported by the node from 'uname -r' (e.g. 3.16.0-0.bpo.4-amd64).",
            priority=1,
        ),
        Column(
            "Container-Runtime",
            "string",
            FieldText("api.core.v1.NodeSystemInfo", "containerRuntimeVersion"),
            priority=1,
        ),
    ),
    "PersistentVolume": (
        NAME,
        Column(
            "Capacity",
            "string",
            FieldText("api.core.v1.PersistentVolumeSpec", "capacity"),
        ),
        Column(
            "Access Modes",
            "string",
            FieldText("api.core.v1.PersistentVolumeSpec", "accessModes"),
        ),
        Column(
            "Reclaim Policy",
            "string",
            "persistentVolumeReclaimPolicy defines what happens to a persistent volume when released from "
            "its claim. Valid options are Retain (default for manually created PersistentVolumes), Delete "
            "(default for dynamically provisioned PersistentVolumes), and Recycle (deprecated). Recycle must "
            "be supported by the volume plugin underlying this PersistentVolume. More info: "
            "https://kubernetes.io/docs/concepts/storage/persistent-volumes#reclaiming",
        ),
        Column(
            "Status",
            "string",
            "phase indicates if a volume is available, bound to a claim, or released by a claim. More info: "
            "https://kubernetes.io/docs/concepts/storage/persistent-volumes#phase",
        ),
        Column(
            "Claim",
            "string",
            FieldText("api.core.v1.PersistentVolumeSpec", "claimRef"),
        ),
        Column("StorageClass", "string", "StorageClass of the pv"),
        Column("VolumeAttributesClass", "string", "VolumeAttributesClass of the pv"),
        Column(
            "Reason",
            "string",
            FieldText("api.core.v1.PersistentVolumeStatus", "reason"),
        ),
        AGE,
        Column(
            "VolumeMode",
            "string",
            "volumeMode defines if a volume is intended to be used with a formatted filesystem or to remain "
            "in raw block state. Value of Filesystem is implied when not included in spec.",
            priority=1,
        ),
    ),
    "PersistentVolumeClaim": (
        NAME,
        Column("Status", "string", "phase represents the current phase of PersistentVolumeClaim."),
        Column("Volume", "string", "volumeName is the binding reference to the PersistentVolume backing this claim."),
        Column("Capacity", "string", "capacity represents the actual resources of the underlying volume."),
        Column(
            "Access Modes",
            "string",
            FieldText("api.core.v1.PersistentVolumeClaimStatus", "accessModes"),
        ),
        Column("StorageClass", "string", "StorageClass of the pvc"),
        Column("VolumeAttributesClass", "string", "VolumeAttributesClass of the pvc"),
        AGE,
        Column(
            "VolumeMode",
            "string",
            "volumeMode defines what type of volume is required by the claim. Value of Filesystem is implied "
            "when not included in claim spec.",
            priority=1,
        ),
    ),
    "Pod": (
        NAME,
        Column("Ready", "string", "The aggregate readiness state of this pod for accepting traffic."),
        Column("Status", "string", "The aggregate status of the containers in this pod."),
        Column(
            "Restarts",
            "string",
            "The number of times the containers in this pod have been restarted and when the last container "
            "in this pod has restarted.",
        ),
        AGE,
        Column(
            "IP",
            "string",
            FieldText("api.core.v1.PodStatus", "podIP"),
            priority=1,
        ),
        Column(
            "Node",
            "string",
            FieldText("api.core.v1.PodSpec", "nodeName"),
            priority=1,
        ),
        Column(
            "Nominated Node",
            "string",
            FieldText("api.core.v1.PodStatus", "nominatedNodeName"),
            priority=1,
        ),
        Column(
            "Readiness Gates",
            "string",
            FieldText("api.core.v1.PodSpec", "readinessGates"),
            priority=1,
        ),
    ),
    "PodDisruptionBudget": (
        NAME,
        Column("Min Available", "string", "The minimum number of pods that must be available."),
        Column("Max Unavailable", "string", "The maximum number of pods that may be unavailable."),
        Column("Allowed Disruptions", "integer", "Calculated number of pods that may be disrupted at this time."),
        AGE,
    ),
    "PodTemplate": (
        NAME,
        Column("Containers", "string", "Names of each container in the template."),
        Column("Images", "string", "Images referenced by each container in the template."),
        Column("Pod Labels", "string", "The labels for the pod template."),
    ),
    "PriorityClass": (
        NAME,
        Column(
            "Value",
            "integer",
            FieldText("api.scheduling.v1.PriorityClass", "value"),
        ),
        Column(
            "Global-Default",
            "boolean",
            FieldText("api.scheduling.v1.PriorityClass", "globalDefault"),
        ),
        AGE,
        Column(
            "PreemptionPolicy",
            "string",
            "preemptionPolicy is the Policy for preempting pods with lower priority. One of Never, "
            "PreemptLowerPriority. Defaults to PreemptLowerPriority if unset.",
        ),
    ),
    "PriorityLevelConfiguration": (
        NAME,
        Column(
            "Type",
            "string",
            FieldText("api.flowcontrol.v1.PriorityLevelConfigurationSpec", "type"),
        ),
        Column(
            "NominalConcurrencyShares",
            "string",
            FieldText("api.flowcontrol.v1.LimitedPriorityLevelConfiguration", "nominalConcurrencyShares"),
        ),
        Column(
            "Queues",
            "string",
            FieldText("api.flowcontrol.v1.QueuingConfiguration", "queues"),
        ),
        Column(
            "HandSize",
            "string",
            FieldText("api.flowcontrol.v1.QueuingConfiguration", "handSize"),
        ),
        Column(
            "QueueLengthLimit",
            "string",
            FieldText("api.flowcontrol.v1.QueuingConfiguration", "queueLengthLimit"),
        ),
        AGE,
    ),
    "ReplicaSet": (
        NAME,
        Column(
            "Desired",
            "integer",
            FieldText("api.apps.v1.ReplicaSetSpec", "replicas"),
        ),
        Column(
            "Current",
            "integer",
            FieldText("api.apps.v1.ReplicaSetStatus", "replicas"),
        ),
        Column(
            "Ready",
            "integer",
            FieldText("api.apps.v1.ReplicaSetStatus", "readyReplicas"),
        ),
        AGE,
        Column("Containers", "string", "Names of each container in the template.", priority=1),
        Column("Images", "string", "Images referenced by each container in the template.", priority=1),
        Column(
            "Selector",
            "string",
            FieldText("api.apps.v1.ReplicaSetSpec", "selector"),
            priority=1,
        ),
    ),
    "ReplicationController": (
        NAME,
        Column(
            "Desired",
            "integer",
            FieldText("api.core.v1.ReplicationControllerSpec", "replicas"),
        ),
        Column(
            "Current",
            "integer",
            FieldText("api.core.v1.ReplicationControllerStatus", "replicas"),
        ),
        Column("Ready", "integer", "The number of ready replicas for this replication controller."),
        AGE,
        Column("Containers", "string", "Names of each container in the template.", priority=1),
        Column("Images", "string", "Images referenced by each container in the template.", priority=1),
        Column(
            "Selector",
            "string",
            FieldText("api.core.v1.ReplicationControllerSpec", "selector"),
            priority=1,
        ),
    ),
    "ResourceClaim": (
        NAME,
        Column("State", "string", "A summary of the current state (allocated, pending, reserved, etc.)."),
        AGE,
    ),
    "ResourceClaimTemplate": (
        NAME,
        AGE,
    ),
    "ResourceQuota": (
        NAME,
        Column("Request", "string", "Request represents a minimum amount of cpu/memory that a container may consume."),
        Column(
            "Limit",
            "string",
            "Limits control the maximum amount of cpu/memory that a container may use independent of "
            "contention on the node.",
        ),
        AGE,
    ),
    "ResourceSlice": (
        NAME,
        Column(
            "Node",
            "string",
            FieldText("api.resource.v1.ResourceSliceSpec", "nodeName"),
        ),
        Column(
            "Driver",
            "string",
            FieldText("api.resource.v1.ResourceSliceSpec", "driver"),
        ),
        Column(
            "Pool",
            "string",
            FieldText("api.resource.v1.ResourcePool", "name"),
        ),
        AGE,
    ),
    "RoleBinding": (
        NAME,
        Column(
            "Role",
            "string",
            "RoleRef can reference a Role in the current namespace or a ClusterRole in the global namespace. "
            "If the RoleRef cannot be resolved, the Authorizer must return an error.",
        ),
        AGE,
        Column("Users", "string", "Users in the roleBinding", priority=1),
        Column("Groups", "string", "Groups in the roleBinding", priority=1),
        Column("ServiceAccounts", "string", "ServiceAccounts in the roleBinding", priority=1),
    ),
    "RuntimeClass": (
        NAME,
        Column("Handler", "string", ""),
        AGE,
    ),
    "Scale": (
        Column("Name", "string", _NAME),
        Column("Desired", "integer", "replicas is the desired number of instances for the scaled object."),
        Column("Available", "integer", "replicas is the actual number of observed instances of the scaled object."),
        AGE,
    ),
    "Secret": (
        NAME,
        Column(
            "Type",
            "string",
            FieldText("api.core.v1.Secret", "type"),
        ),
        Column(
            "Data",
            "string",
            FieldText("api.core.v1.Secret", "data"),
        ),
        AGE,
    ),
    "Service": (
        NAME,
        Column(
            "Type",
            "string",
            "type determines how the Service is exposed. Defaults to ClusterIP. Valid options are "
            'ExternalName, ClusterIP, NodePort, and LoadBalancer. "ClusterIP" allocates a cluster-internal '
            "IP address for load-balancing to endpoints. Endpoints are determined by the selector or if that "
            "is not specified, by manual construction of an Endpoints object or EndpointSlice objects. If "
            'clusterIP is "None", no virtual IP is allocated and the endpoints are published as a set of '
            'endpoints rather than a virtual IP. "NodePort" builds on ClusterIP and allocates a port on '
            'every node which routes to the same endpoints as the clusterIP. "LoadBalancer" builds on '
            "NodePort and creates an external load-balancer (if supported in the current cloud) which routes "
            'to the same endpoints as the clusterIP. "ExternalName" aliases this service to the specified '
            "externalName. Several other fields do not apply to ExternalName services. More info: "
            "https://kubernetes.io/docs/concepts/services-networking/service/#publishing-services-service-types",
        ),
        Column(
            "Cluster-IP",
            "string",
            FieldText("api.core.v1.ServiceSpec", "clusterIP"),
        ),
        Column(
            "External-IP",
            "string",
            FieldText("api.core.v1.ServiceSpec", "externalIPs"),
        ),
        Column(
            "Port(s)",
            "string",
            FieldText("api.core.v1.ServiceSpec", "ports"),
        ),
        AGE,
        Column(
            "Selector",
            "string",
            FieldText("api.core.v1.ServiceSpec", "selector"),
            priority=1,
        ),
    ),
    "ServiceAccount": (
        NAME,
        AGE,
    ),
    "ServiceCIDR": (
        NAME,
        Column(
            "CIDRs",
            "string",
            FieldText("api.networking.v1.ServiceCIDRSpec", "cidrs"),
        ),
        AGE,
    ),
    "StatefulSet": (
        NAME,
        Column("Ready", "string", "Number of the pod with ready state"),
        AGE,
        Column("Containers", "string", "Names of each container in the template.", priority=1),
        Column("Images", "string", "Images referenced by each container in the template.", priority=1),
    ),
    "StorageClass": (
        NAME,
        Column("Provisioner", "string", "provisioner indicates the type of the provisioner."),
        Column(
            "ReclaimPolicy",
            "string",
            "reclaimPolicy controls the reclaimPolicy for dynamically provisioned PersistentVolumes of this "
            "storage class. Defaults to Delete.",
        ),
        Column(
            "VolumeBindingMode",
            "string",
            "volumeBindingMode indicates how PersistentVolumeClaims should be provisioned and bound.  When "
            "unset, VolumeBindingImmediate is used. This field is only honored by servers that enable the "
            "VolumeScheduling feature.",
        ),
        Column(
            "AllowVolumeExpansion",
            "string",
            "allowVolumeExpansion shows whether the storage class allow volume expand.",
        ),
        AGE,
    ),
    "ValidatingAdmissionPolicy": (
        NAME,
        Column(
            "Validations",
            "integer",
            "Validations indicates the number of validation rules defined in this configuration",
        ),
        Column("ParamKind", "string", "ParamKind specifies the kind of resources used to parameterize this policy"),
        AGE,
    ),
    "ValidatingAdmissionPolicyBinding": (
        NAME,
        Column("PolicyName", "string", "PolicyName indicates the policy definition which the policy binding binded to"),
        Column("ParamRef", "string", "ParamRef indicates the param resource which sets the configuration param"),
        AGE,
    ),
    "ValidatingWebhookConfiguration": (
        NAME,
        Column("Webhooks", "integer", "Webhooks indicates the number of webhooks registered in this configuration"),
        AGE,
    ),
    "VolumeAttachment": (
        NAME,
        Column(
            "Attacher",
            "string",
            FieldText("api.storage.v1.VolumeAttachmentSpec", "attacher"),
            format="name",
        ),
        Column("PV", "string", "persistentVolumeName represents the name of the persistent volume to attach."),
        Column("Node", "string", "nodeName represents the node that the volume should be attached to."),
        Column(
            "Attached",
            "boolean",
            FieldText("api.storage.v1.VolumeAttachmentStatus", "attached"),
        ),
        AGE,
    ),
    "VolumeAttributesClass": (
        NAME,
        Column("DriverName", "string", "Name of the CSI driver This field is immutable."),
        AGE,
    ),
}


def description_of(column: Column) -> str:
    """What a table says of the column."""
    text = column.description
    return text if isinstance(text, str) else _texts()[text]


@functools.cache
def _texts() -> dict[FieldText, str]:
    """The texts of all columns, found together: the document they stand in is too large to be kept."""
    texts = (column.description for columns in COLUMNS.values() for column in columns)
    return field_texts(text for text in texts if isinstance(text, FieldText))
