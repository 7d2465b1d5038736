"""Every built-in resource, in the order discovery lists them.

Discovery, OpenAPI paths, routing, authorization and the watch caches all come from these rows; a resource is added here
and in its own room, nowhere else.
"""

from __future__ import annotations

from kapi.resources.admissionregistration import mutatingadmissionpolicies
from kapi.resources.admissionregistration import mutatingadmissionpolicybindings
from kapi.resources.admissionregistration import mutatingwebhookconfigurations
from kapi.resources.admissionregistration import validatingadmissionpolicies
from kapi.resources.admissionregistration import validatingadmissionpolicybindings
from kapi.resources.admissionregistration import validatingwebhookconfigurations
from kapi.resources.apiextensions import customresourcedefinitions
from kapi.resources.apiregistration import apiservices
from kapi.resources.apps import controllerrevisions
from kapi.resources.apps import daemonsets
from kapi.resources.apps import deployments
from kapi.resources.apps import replicasets
from kapi.resources.apps import statefulsets
from kapi.resources.authentication import selfsubjectreviews
from kapi.resources.authentication import tokenreviews
from kapi.resources.authorization import localsubjectaccessreviews
from kapi.resources.authorization import selfsubjectaccessreviews
from kapi.resources.authorization import selfsubjectrulesreviews
from kapi.resources.authorization import subjectaccessreviews
from kapi.resources.autoscaling import horizontalpodautoscalers
from kapi.resources.autoscaling import horizontalpodautoscalers_v1
from kapi.resources.batch import cronjobs
from kapi.resources.batch import jobs
from kapi.resources.certificates import certificatesigningrequests
from kapi.resources.coordination import leases
from kapi.resources.core import bindings
from kapi.resources.core import componentstatuses
from kapi.resources.core import configmaps
from kapi.resources.core import endpoints
from kapi.resources.core import events as core_events
from kapi.resources.core import limitranges
from kapi.resources.core import namespaces
from kapi.resources.core import nodes
from kapi.resources.core import persistentvolumeclaims
from kapi.resources.core import persistentvolumes
from kapi.resources.core import pods
from kapi.resources.core import podtemplates
from kapi.resources.core import replicationcontrollers
from kapi.resources.core import resourcequotas
from kapi.resources.core import secrets
from kapi.resources.core import serviceaccounts
from kapi.resources.core import services
from kapi.resources.discovery import endpointslices
from kapi.resources.events import events as events_events
from kapi.resources.flowcontrol import flowschemas
from kapi.resources.flowcontrol import prioritylevelconfigurations
from kapi.resources.networking import ingressclasses
from kapi.resources.networking import ingresses
from kapi.resources.networking import ipaddresses
from kapi.resources.networking import networkpolicies
from kapi.resources.networking import servicecidrs
from kapi.resources.node import runtimeclasses
from kapi.resources.policy import poddisruptionbudgets
from kapi.resources.rbac import clusterrolebindings
from kapi.resources.rbac import clusterroles
from kapi.resources.rbac import rolebindings
from kapi.resources.rbac import roles
from kapi.resources.resource import deviceclasses
from kapi.resources.resource import resourceclaims
from kapi.resources.resource import resourceclaimtemplates
from kapi.resources.resource import resourceslices
from kapi.resources.scheduling import priorityclasses
from kapi.resources.storage import csidrivers
from kapi.resources.storage import csinodes
from kapi.resources.storage import csistoragecapacities
from kapi.resources.storage import storageclasses
from kapi.resources.storage import volumeattachments
from kapi.resources.storage import volumeattributesclasses
from kapi.resources.definition import Resource

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
