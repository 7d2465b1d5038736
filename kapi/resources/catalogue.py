"""Every built-in resource, in the order discovery lists them.

Discovery, OpenAPI paths, routing, authorization and the watch caches all come from these rows; a resource is added here
and in its own module, nowhere else.
"""

from __future__ import annotations

from kapi.resources.admissionregistration import (
    mutatingadmissionpolicies,
    mutatingadmissionpolicybindings,
    mutatingwebhookconfigurations,
    validatingadmissionpolicies,
    validatingadmissionpolicybindings,
    validatingwebhookconfigurations,
)
from kapi.resources.apiextensions import customresourcedefinitions
from kapi.resources.apiregistration import apiservices
from kapi.resources.apps import controllerrevisions, daemonsets, deployments, replicasets, statefulsets
from kapi.resources.authentication import selfsubjectreviews, tokenreviews
from kapi.resources.authorization import (
    localsubjectaccessreviews,
    selfsubjectaccessreviews,
    selfsubjectrulesreviews,
    subjectaccessreviews,
)
from kapi.resources.autoscaling import horizontalpodautoscalers, horizontalpodautoscalers_v1
from kapi.resources.batch import cronjobs, jobs
from kapi.resources.certificates import certificatesigningrequests
from kapi.resources.coordination import leases
from kapi.resources.core import (
    bindings,
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
from kapi.resources.definition import Resource
from kapi.resources.discovery import endpointslices
from kapi.resources.events import events as events_events
from kapi.resources.flowcontrol import flowschemas, prioritylevelconfigurations
from kapi.resources.networking import ingressclasses, ingresses, ipaddresses, networkpolicies, servicecidrs
from kapi.resources.node import runtimeclasses
from kapi.resources.policy import poddisruptionbudgets
from kapi.resources.rbac import clusterrolebindings, clusterroles, rolebindings, roles
from kapi.resources.resource import deviceclasses, resourceclaims, resourceclaimtemplates, resourceslices
from kapi.resources.scheduling import priorityclasses
from kapi.resources.storage import (
    csidrivers,
    csinodes,
    csistoragecapacities,
    storageclasses,
    volumeattachments,
    volumeattributesclasses,
)

#: in the order of upstream's discovery document
BUILT_IN: tuple[Resource, ...] = (
    bindings.RESOURCE,
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
    apiservices.RESOURCE,
    controllerrevisions.RESOURCE,
    daemonsets.RESOURCE,
    deployments.RESOURCE,
    replicasets.RESOURCE,
    statefulsets.RESOURCE,
    events_events.RESOURCE,
    selfsubjectreviews.RESOURCE,
    tokenreviews.RESOURCE,
    localsubjectaccessreviews.RESOURCE,
    selfsubjectaccessreviews.RESOURCE,
    selfsubjectrulesreviews.RESOURCE,
    subjectaccessreviews.RESOURCE,
    horizontalpodautoscalers.RESOURCE,
    horizontalpodautoscalers_v1.RESOURCE,
    cronjobs.RESOURCE,
    jobs.RESOURCE,
    certificatesigningrequests.RESOURCE,
    ingressclasses.RESOURCE,
    ingresses.RESOURCE,
    ipaddresses.RESOURCE,
    networkpolicies.RESOURCE,
    servicecidrs.RESOURCE,
    poddisruptionbudgets.RESOURCE,
    clusterrolebindings.RESOURCE,
    clusterroles.RESOURCE,
    rolebindings.RESOURCE,
    roles.RESOURCE,
    csidrivers.RESOURCE,
    csinodes.RESOURCE,
    csistoragecapacities.RESOURCE,
    storageclasses.RESOURCE,
    volumeattachments.RESOURCE,
    volumeattributesclasses.RESOURCE,
    mutatingadmissionpolicies.RESOURCE,
    mutatingadmissionpolicybindings.RESOURCE,
    mutatingwebhookconfigurations.RESOURCE,
    validatingadmissionpolicies.RESOURCE,
    validatingadmissionpolicybindings.RESOURCE,
    validatingwebhookconfigurations.RESOURCE,
    customresourcedefinitions.RESOURCE,
    priorityclasses.RESOURCE,
    leases.RESOURCE,
    runtimeclasses.RESOURCE,
    endpointslices.RESOURCE,
    deviceclasses.RESOURCE,
    resourceclaims.RESOURCE,
    resourceclaimtemplates.RESOURCE,
    resourceslices.RESOURCE,
    flowschemas.RESOURCE,
    prioritylevelconfigurations.RESOURCE,
)
