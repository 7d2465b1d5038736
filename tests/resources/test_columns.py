"""The columns of each kind, as upstream's printers list them, and the cells of an object that has nothing.

Upstream: ``pkg/printers/internalversion/printers.go``, and kube-aggregator for APIService.
"""

from __future__ import annotations

from itertools import zip_longest

import pytest

from kapi.machinery.tree import Object, Tree
from kapi.resources.catalogue import BUILT_IN
from kapi.resources.definition import Column
from kapi.resources.previews import PREVIEWS

ROWS = {row.plural: row for row in reversed((*BUILT_IN, *PREVIEWS)) if row.table is not None}
#: columns in their order, with what is not usual of them, and the cell of an object that has nothing
CELLS: dict[str, dict[str, Tree]] = {
    "apiservices": {"Name": "a", "Service": "Local", "Available": "Unknown", "Age": "60s"},
    "certificatesigningrequests": {"Name": "a", "Age": "60s", "SignerName": "<none>", "Requestor": "",
        "RequestedDuration": "<none>", "Condition": "Pending"},
    "clusterrolebindings": {"Name": "a", "Role": "/", "Age": "60s", "Users (wide)": "", "Groups (wide)": "",
        "ServiceAccounts (wide)": ""},
    "clustertrustbundles": {"Name": "a", "SignerName": "<none>"},
    "componentstatuses": {"Name": "a", "Status": "Unknown", "Message": "", "Error": ""},
    "configmaps": {"Name": "a", "Data": 0, "Age": "60s"},
    "controllerrevisions": {"Name": "a", "Controller": "<none>", "Revision": 0, "Age": "60s"},
    "cronjobs": {"Name": "a", "Schedule": "", "Timezone": "<none>", "Suspend (boolean)": "<unset>",
        "Active (integer)": 0, "Last Schedule": "<none>", "Age": "60s", "Containers (wide)": "", "Images (wide)": "",
        "Selector (wide)": "<none>"},
    "csidrivers": {"Name": "a", "AttachRequired (boolean)": True, "PodInfoOnMount (boolean)": False,
        "StorageCapacity (boolean)": False, "TokenRequests": "<unset>", "RequiresRepublish (boolean)": False,
        "Modes": "<none>", "Age": "60s"},
    "csinodes": {"Name": "a", "Drivers (integer)": 0, "Age": "60s"},
    "daemonsets": {"Name": "a", "Desired (integer)": 0, "Current (integer)": 0, "Ready (integer)": 0,
        "Up-to-date (integer)": 0, "Available (integer)": 0, "Node Selector": "<none>", "Age": "60s",
        "Containers (wide)": "", "Images (wide)": "", "Selector (wide)": "<none>"},
    "deployments": {"Name": "a", "Ready": "0/0", "Up-to-date": 0, "Available": 0, "Age": "60s",
        "Containers (wide)": "", "Images (wide)": "", "Selector (wide)": ""},
    "deviceclasses": {"Name": "a", "Age": "60s"},
    "devicetaintrules": {"Name": "a", "Key": "", "Value": "", "Effect": "", "TimeAdded": "", "Age": "60s"},
    "endpoints": {"Name": "a", "Endpoints": "<none>", "Age": "60s"},
    "endpointslices": {"Name": "a", "AddressType": "", "Ports": "<unset>", "Endpoints": "<unset>", "Age": "60s"},
    "events": {"Last Seen": "<unknown>", "Type": "", "Reason": "", "Object": "", "Subobject (wide)": "",
        "Source (wide)": "", "Message": "", "First Seen (wide)": "<unknown>", "Count (wide)": 1, "Name (wide)": "a"},
    "flowschemas": {"Name": "a", "PriorityLevel": "", "MatchingPrecedence": 0, "DistinguisherMethod": "<none>",
        "Age": "60s", "MissingPL": "?"},
    "horizontalpodautoscalers": {"Name": "a", "Reference": "/", "Targets": "<none>", "MinPods": "<unset>",
        "MaxPods": 0, "Replicas": 0, "Age": "60s"},
    "ingressclasses": {"Name": "a", "Controller": "", "Parameters": "<none>", "Age": "60s"},
    "ingresses": {"Name": "a", "Class": "<none>", "Hosts": "*", "Address": "", "Ports": "80", "Age": "60s"},
    "ipaddresses": {"Name": "a", "ParentRef": "<none>", "": "60s"},  # the age has no column upstream either
    "jobs": {"Name": "a", "Status": "Running", "Completions": "0/1", "Duration": "", "Age": "60s",
        "Containers (wide)": "", "Images (wide)": "", "Selector (wide)": "<none>"},
    "leasecandidates": {"Name": "a", "LeaseName": "", "BinaryVersion": "", "EmulationVersion": "", "Age": "60s"},
    "leases": {"Name": "a", "Holder": "", "Age": "60s"},
    "mutatingadmissionpolicies": {"Name": "a", "Mutations (integer)": 0, "ParamKind": "<unset>", "Age": "60s"},
    "mutatingadmissionpolicybindings": {"Name": "a", "PolicyName": "", "ParamRef": "<unset>", "Age": "60s"},
    "mutatingwebhookconfigurations": {"Name": "a", "Webhooks (integer)": 0, "Age": "60s"},
    "namespaces": {"Name": "a", "Status": "", "Age": "60s"},
    "networkpolicies": {"Name": "a", "Pod-Selector": "<none>", "Age": "60s"},
    "nodes": {"Name": "a", "Status": "Unknown", "Roles": "<none>", "Age": "60s", "Version": "",
        "Internal-IP (wide)": "<none>", "External-IP (wide)": "<none>", "OS-Image (wide)": "<unknown>",
        "Kernel-Version (wide)": "<unknown>", "Container-Runtime (wide)": "<unknown>"},
    "persistentvolumeclaims": {"Name": "a", "Status": "", "Volume": "", "Capacity": "", "Access Modes": "",
        "StorageClass": "", "VolumeAttributesClass": "<unset>", "Age": "60s", "VolumeMode (wide)": "<unset>"},
    "persistentvolumes": {"Name": "a", "Capacity": "0", "Access Modes": "", "Reclaim Policy": "", "Status": "",
        "Claim": "", "StorageClass": "", "VolumeAttributesClass": "<unset>", "Reason": "", "Age": "60s",
        "VolumeMode (wide)": "<unset>"},
    "podcertificaterequests": {"Name": "a", "PodName": "", "ServiceAccountName": "", "NodeName": "", "SignerName": "",
        "State": "Pending", "UnverifiedUserAnnotations": "<none>"},
    "poddisruptionbudgets": {"Name": "a", "Min Available": "N/A", "Max Unavailable": "N/A",
        "Allowed Disruptions (integer)": 0, "Age": "60s"},
    "podgroups": {"Name": "a", "Age": "60s"},
    "pods": {"Name": "a", "Ready": "0/0", "Status": "", "Restarts": "0", "Age": "60s", "IP (wide)": "<none>",
        "Node (wide)": "<none>", "Nominated Node (wide)": "<none>", "Readiness Gates (wide)": "<none>"},
    "podtemplates": {"Name": "a", "Containers": "", "Images": "", "Pod Labels": "<none>"},
    "priorityclasses": {"Name": "a", "Value (integer)": 0, "Global-Default (boolean)": False, "Age": "60s",
        "PreemptionPolicy": ""},
    "prioritylevelconfigurations": {"Name": "a", "Type": "", "NominalConcurrencyShares": "<none>", "Queues": "<none>",
        "HandSize": "<none>", "QueueLengthLimit": "<none>", "Age": "60s"},
    "replicasets": {"Name": "a", "Desired (integer)": 0, "Current (integer)": 0, "Ready (integer)": 0, "Age": "60s",
        "Containers (wide)": "", "Images (wide)": "", "Selector (wide)": "<none>"},
    "replicationcontrollers": {"Name": "a", "Desired (integer)": 0, "Current (integer)": 0, "Ready (integer)": 0,
        "Age": "60s", "Containers (wide)": "", "Images (wide)": "", "Selector (wide)": "<none>"},
    "resourceclaims": {"Name": "a", "State": "pending", "Age": "60s"},
    "resourceclaimtemplates": {"Name": "a", "Age": "60s"},
    "resourcepoolstatusrequests": {"Name": "a", "Driver": "", "Total": "-", "Available": "-", "Allocated": "-",
        "Unavailable": "-", "Errors": "-", "Pools (integer)": 0, "Status": "Pending", "Completed": "<none>"},
    "resourcequotas": {"Name": "a", "Request": "", "Limit": "", "Age": "60s"},
    "resourceslices": {"Name": "a", "Node": "", "Driver": "", "Pool": "", "Age": "60s"},
    "rolebindings": {"Name": "a", "Role": "/", "Age": "60s", "Users (wide)": "", "Groups (wide)": "",
        "ServiceAccounts (wide)": ""},
    "runtimeclasses": {"Name": "a", "Handler": "", "Age": "60s"},
    "secrets": {"Name": "a", "Type": "", "Data": 0, "Age": "60s"},
    "serviceaccounts": {"Name": "a", "Age": "60s"},
    "servicecidrs": {"Name": "a", "CIDRs": "", "Age": "60s"},
    "services": {"Name": "a", "Type": "", "Cluster-IP": "<none>", "External-IP": "<unknown>", "Port(s)": "<none>",
        "Age": "60s", "Selector (wide)": "<none>"},
    "statefulsets": {"Name": "a", "Ready": "0/0", "Age": "60s", "Containers (wide)": "", "Images (wide)": ""},
    "storageclasses": {"Name": "a", "Provisioner": "", "ReclaimPolicy": "Delete", "VolumeBindingMode": "Immediate",
        "AllowVolumeExpansion": False, "Age": "60s"},
    "storageversionmigrations": {"Name (no format)": "a", "Resource": "", "Status": "Unknown"},
    "storageversions": {"Name": "a", "CommonEncodingVersion": "<unset>", "StorageVersions": "", "Age": "60s"},
    "validatingadmissionpolicies": {"Name": "a", "Validations (integer)": 0, "ParamKind": "<unset>", "Age": "60s"},
    "validatingadmissionpolicybindings": {"Name": "a", "PolicyName": "", "ParamRef": "<unset>", "Age": "60s"},
    "validatingwebhookconfigurations": {"Name": "a", "Webhooks (integer)": 0, "Age": "60s"},
    "volumeattachments": {"Name": "a", "Attacher (name)": "", "PV": "", "Node": "", "Attached (boolean)": False,
        "Age": "60s"},
    "volumeattributesclasses": {"Name": "a", "DriverName": "", "Age": "60s"},
    "workloads": {"Name": "a", "Age": "60s"},
}  # fmt: skip


def shown(column: Column) -> str:
    """Its name, and in parentheses what is not usual: another type than string, a format, a lower priority."""
    format = column.format if column.name != "Name" else "" if column.format == "name" else "no format"
    kind = column.type if column.type != "string" else ""
    unusual = [each for each in (kind, format, "wide" if column.priority else "") if each]
    return f"{column.name} ({', '.join(unusual)})" if unusual else column.name


def test_each_table_is_listed() -> None:
    assert CELLS.keys() == ROWS.keys()


@pytest.mark.parametrize("plural", CELLS)
def test_columns_and_the_cells_of_an_object_that_has_nothing(plural: str) -> None:
    table = ROWS[plural].table
    assert table is not None
    obj: Object = {"metadata": {"name": "a", "creationTimestamp": "2024-01-01T00:00:00Z"}, "spec": {}}
    if plural == "podtemplates":
        obj["template"] = {"spec": {"containers": []}}
    columns = [shown(column) for column in table.columns]
    assert list(zip_longest(columns, table.cells(obj, 1_704_067_260.0), fillvalue="")) == list(CELLS[plural].items())
