"""Every built-in resource, in the order discovery lists them.

Discovery, OpenAPI paths, routing, authorization and the watch caches all come from these rows; a resource is added here
and in its own module, nowhere else.  Reviews have no module: endpoints answer them, and they are not stored.
"""

from __future__ import annotations

from kapi.resources import apiregistration, coordination, discovery, events, node, policy, rbac
from kapi.resources.admissionregistration import policies, webhooks
from kapi.resources.apiextensions import customresourcedefinitions
from kapi.resources.apps import controllerrevisions, daemonsets, deployments, replicasets, statefulsets
from kapi.resources.autoscaling import horizontalpodautoscalers
from kapi.resources.batch import cronjobs, jobs
from kapi.resources.certificates import certificatesigningrequests
from kapi.resources.core import (
    componentstatuses,
    configmaps,
    endpoints,
    limitranges,
    namespaces,
    nodes,
    persistentvolumeclaims,
    persistentvolumes,
    pods,
    podtemplates,
    replicationcontrollers,
    resourcequotas,
    secrets,
    serviceaccounts,
    services,
)
from kapi.resources.core import events as core_events
from kapi.resources.definition import Resource, review
from kapi.resources.flowcontrol import flowschemas, prioritylevelconfigurations
from kapi.resources.networking import ingressclasses, ingresses, networkpolicies, servicecidrs
from kapi.resources.resource import deviceclasses, resourceclaims, resourceslices
from kapi.resources.scheduling import priorityclasses
from kapi.resources.storage import csi, storageclasses, volumeattachments

#: in the order of upstream's discovery document
BUILT_IN: tuple[Resource, ...] = (
    pods.BINDING,
    componentstatuses.RESOURCE,
    configmaps.RESOURCE,
    endpoints.RESOURCE,
    core_events.RESOURCE,
    limitranges.RESOURCE,
    namespaces.RESOURCE,
    nodes.RESOURCE,
    persistentvolumeclaims.RESOURCE,
    persistentvolumes.RESOURCE,
    pods.RESOURCE,
    podtemplates.RESOURCE,
    replicationcontrollers.RESOURCE,
    resourcequotas.RESOURCE,
    secrets.RESOURCE,
    serviceaccounts.RESOURCE,
    services.RESOURCE,
    apiregistration.API_SERVICE,
    controllerrevisions.RESOURCE,
    daemonsets.RESOURCE,
    deployments.RESOURCE,
    replicasets.RESOURCE,
    statefulsets.RESOURCE,
    events.RESOURCE,
    review("authentication.k8s.io", "SelfSubjectReview"),
    review("authentication.k8s.io", "TokenReview"),
    review("authorization.k8s.io", "LocalSubjectAccessReview", namespaced=True),
    review("authorization.k8s.io", "SelfSubjectAccessReview"),
    review("authorization.k8s.io", "SelfSubjectRulesReview"),
    review("authorization.k8s.io", "SubjectAccessReview"),
    horizontalpodautoscalers.RESOURCE,
    horizontalpodautoscalers.RESOURCE_V1,
    cronjobs.RESOURCE,
    jobs.RESOURCE,
    certificatesigningrequests.RESOURCE,
    ingressclasses.RESOURCE,
    ingresses.RESOURCE,
    servicecidrs.IP_ADDRESS,
    networkpolicies.RESOURCE,
    servicecidrs.SERVICE_CIDR,
    policy.POD_DISRUPTION_BUDGET,
    rbac.CLUSTER_ROLE_BINDING,
    rbac.CLUSTER_ROLE,
    rbac.ROLE_BINDING,
    rbac.ROLE,
    csi.CSI_DRIVER,
    csi.CSI_NODE,
    csi.CSI_STORAGE_CAPACITY,
    storageclasses.STORAGE_CLASS,
    volumeattachments.RESOURCE,
    storageclasses.VOLUME_ATTRIBUTES_CLASS,
    policies.MUTATING,
    policies.MUTATING_BINDING,
    webhooks.MUTATING,
    policies.VALIDATING,
    policies.VALIDATING_BINDING,
    webhooks.VALIDATING,
    customresourcedefinitions.RESOURCE,
    priorityclasses.RESOURCE,
    coordination.LEASE,
    node.RUNTIME_CLASS,
    discovery.ENDPOINT_SLICE,
    deviceclasses.RESOURCE,
    resourceclaims.RESOURCE_CLAIM,
    resourceclaims.RESOURCE_CLAIM_TEMPLATE,
    resourceslices.RESOURCE,
    flowschemas.RESOURCE,
    prioritylevelconfigurations.RESOURCE,
)
