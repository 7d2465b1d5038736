"""Alpha and beta versions, which ``--runtime-config`` enables, for some kinds together with feature gates.

When a kind also has a stable version, its objects are stored in that version and converted.

``machinery/lifecycles.txt`` has the versions of each release.

Upstream: ``pkg/controlplane`` (versions that are off by default).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec

from kapi.machinery.tree import Object
from kapi.resources import apiserverinternal, coordination, storagemigration
from kapi.resources.admissionregistration import policies
from kapi.resources.certificates import clustertrustbundles, podcertificaterequests
from kapi.resources.definition import Resource
from kapi.resources.networking import servicecidrs
from kapi.resources.resource import (
    deviceclasses,
    devicetaintrules,
    resourceclaims,
    resourcepoolstatusrequests,
    resourceslices,
    v1beta1,
)
from kapi.resources.scheduling import podgroups
from kapi.resources.storage import storageclasses

Convert = Callable[[Object], Object]


def _as_it_is(obj: Object) -> Object:
    return obj


def _version_of(row: Resource, version: str, *, inward: Convert = _as_it_is, outward: Convert = _as_it_is) -> Resource:
    """The row of another version.

    ``inward`` and ``outward`` convert to and from the stored version, apart from ``apiVersion``.
    """
    other, stored = f"{row.group}/{version}", str(row.group_version)
    return replace(
        row,
        version=version,
        storage_version=row.version,
        to_storage=lambda obj: {**inward(obj), "apiVersion": stored},
        from_storage=lambda obj: {**outward(obj), "apiVersion": other},
        table=row.table and msgspec.structs.replace(row.table, of_stored=True),
    )


def _deny_without_parameters(binding: Object) -> Object:
    """Sets the default of the action for missing parameters, which only v1alpha1 has."""
    reference = (binding.get("spec") or {}).get("paramRef")
    if reference is None or reference.get("parameterNotFoundAction") is not None:
        return binding
    return {**binding, "spec": {**binding["spec"], "paramRef": {**reference, "parameterNotFoundAction": "Deny"}}}


#: rows that are served only when they are enabled
PREVIEWS: tuple[Resource, ...] = (
    coordination.LEASE_CANDIDATE,
    _version_of(coordination.LEASE_CANDIDATE, "v1alpha2"),
    apiserverinternal.STORAGE_VERSION,
    storagemigration.STORAGE_VERSION_MIGRATION,
    devicetaintrules.RESOURCE,
    _version_of(devicetaintrules.RESOURCE, "v1alpha3"),
    resourcepoolstatusrequests.RESOURCE,
    podgroups.POD_GROUP,
    podgroups.WORKLOAD,
    podcertificaterequests.RESOURCE,
    clustertrustbundles.RESOURCE,
    _version_of(clustertrustbundles.RESOURCE, "v1alpha1"),
    _version_of(servicecidrs.IP_ADDRESS, "v1beta1"),
    _version_of(servicecidrs.SERVICE_CIDR, "v1beta1"),
    _version_of(storageclasses.VOLUME_ATTRIBUTES_CLASS, "v1beta1"),
    _version_of(policies.VALIDATING, "v1beta1"),
    _version_of(policies.VALIDATING_BINDING, "v1beta1"),
    _version_of(policies.MUTATING, "v1beta1"),
    _version_of(policies.MUTATING_BINDING, "v1beta1"),
    _version_of(policies.MUTATING, "v1alpha1"),
    _version_of(policies.MUTATING_BINDING, "v1alpha1", inward=_deny_without_parameters),
    _version_of(deviceclasses.RESOURCE, "v1beta2"),
    _version_of(resourceclaims.RESOURCE_CLAIM, "v1beta2"),
    _version_of(resourceclaims.RESOURCE_CLAIM_TEMPLATE, "v1beta2"),
    _version_of(resourceslices.RESOURCE, "v1beta2"),
    _version_of(deviceclasses.RESOURCE, "v1beta1"),
    _version_of(
        resourceclaims.RESOURCE_CLAIM, "v1beta1", inward=v1beta1.claim_from_v1beta1, outward=v1beta1.claim_to_v1beta1
    ),
    _version_of(
        resourceclaims.RESOURCE_CLAIM_TEMPLATE,
        "v1beta1",
        inward=v1beta1.template_from_v1beta1,
        outward=v1beta1.template_to_v1beta1,
    ),
    _version_of(
        resourceslices.RESOURCE, "v1beta1", inward=v1beta1.slice_from_v1beta1, outward=v1beta1.slice_to_v1beta1
    ),
)
