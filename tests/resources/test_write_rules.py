"""How each type is written and deleted: the flags of upstream's strategies and registries."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kapi.resources.catalogue import BUILT_IN
from kapi.resources.definition import Resource, Strategy
from kapi.resources.previews import PREVIEWS

ROWS = [row for row in (*BUILT_IN, *PREVIEWS) if not row.handler]
#: a DELETE answers with the object: ReturnDeletedObject, and the storage of definitions
RETURNED = """
    customresourcedefinitions namespaces persistentvolumeclaims persistentvolumes pods podtemplates resourcequotas
    serviceaccounts services deviceclasses devicetaintrules resourceclaims resourceclaimtemplates
    resourcepoolstatusrequests resourceslices csidrivers csinodes storageclasses volumeattachments volumeattributesclasses
"""
#: a PUT needs a resourceVersion: AllowUnconditionalUpdate is false
CONDITIONAL = """
    mutatingadmissionpolicies mutatingadmissionpolicybindings mutatingwebhookconfigurations validatingadmissionpolicies
    validatingadmissionpolicybindings validatingwebhookconfigurations customresourcedefinitions apiservices
    clustertrustbundles podcertificaterequests leasecandidates leases storageversions runtimeclasses
    poddisruptionbudgets resourcepoolstatusrequests csidrivers csinodes csistoragecapacities volumeattachments
    storageversionmigrations
"""
#: a PUT of a name that does not exist creates it: AllowCreateOnUpdate
CREATED = """
    leasecandidates leases endpoints events limitranges services runtimeclasses clusterrolebindings clusterroles
    rolebindings roles
"""
#: the fields that no write owns: GetResetFields of the object's own strategy, ("status",) where it is not listed ...
RESET = {"certificatesigningrequests": "spec status", "podcertificaterequests": ""}
#: ... and of its status, "spec" where it is not listed
RESET_WITH_STATUS = {
    "pods": "spec metadata.deletionTimestamp metadata.ownerReferences", "deployments": "spec metadata.labels",
    "certificatesigningrequests": "spec status.conditions",
    **dict.fromkeys(
        """apiservices servicecidrs volumeattachments validatingadmissionpolicies resourceclaims flowschemas
        prioritylevelconfigurations storageversions storageversionmigrations devicetaintrules resourcepoolstatusrequests
        podgroups""".split(), "metadata spec"
    ),
}  # fmt: skip
#: of other subresources
RESET_WITH_OTHERS = {
    "namespaces/finalize": "status", "certificatesigningrequests/approval": "spec status.certificate",
    "pods/ephemeralcontainers": "", "pods/resize": "",
}  # fmt: skip


def plurals(holds: Callable[[Resource], bool]) -> set[str]:
    return {row.plural for row in ROWS if holds(row)}


def parts() -> Iterator[tuple[Resource, str, Strategy]]:
    """Each subresource with a strategy, by the name of its path."""
    for row in ROWS:
        for sub in row.subresources:
            if sub.strategy is not None:
                yield row, sub.name, sub.strategy


def test_some_deletions_answer_with_the_object() -> None:
    assert plurals(lambda row: row.returns_deleted) == set(RETURNED.split())


def test_some_updates_need_a_resource_version() -> None:
    assert plurals(lambda row: not row.strategy.allow_unconditional_update) == set(CONDITIONAL.split())
    for row, name, strategy in parts():
        assert strategy.allow_unconditional_update == row.strategy.allow_unconditional_update, (row.plural, name)


def test_some_updates_create() -> None:
    assert plurals(lambda row: row.strategy.allow_create_on_update) == set(CREATED.split())


def test_writes_reset_the_fields_of_other_endpoints() -> None:
    has_status = {row.plural for row, name, _ in parts() if name == "status"}
    for row in ROWS:
        expected = RESET.get(row.plural, "status" if row.plural in has_status else "")
        assert row.strategy.reset_fields == tuple(expected.split()), row.plural
    for row, name, strategy in parts():
        own = (
            RESET_WITH_OTHERS
            if name != "status"
            else {f"{plural}/status": it for plural, it in RESET_WITH_STATUS.items()}
        )
        assert strategy.reset_fields == tuple(own.get(f"{row.plural}/{name}", "spec").split()), (row.plural, name)


def test_events_alone_expire_and_pods_alone_end_gracefully() -> None:
    assert plurals(lambda row: row.ttl) == {"events"}
    assert plurals(lambda row: row.graceful) == {"pods"}
