"""Structs that Go embeds in others: invisible in JSON, but Go's decoder names them in the paths of its errors.

Upstream: ``k8s.io/api`` (the structs marked ``json:",inline"``).
"""

from __future__ import annotations

from kapi.schema.types import Type

_LOCAL = {"name": "LocalObjectReference.name"}
_RULE = {name: f"Rule.{name}" for name in ("apiGroups", "apiVersions", "resources", "scope")}
_CONFIGURATION = {"opaque": "DeviceConfiguration.opaque"}
#: structs in which some fields belong to embedded structs
_SOME = {
    "ConfigMapEnvSource": _LOCAL,
    "ConfigMapKeySelector": _LOCAL,
    "ConfigMapProjection": _LOCAL,
    "ConfigMapVolumeSource": _LOCAL,
    "SecretEnvSource": _LOCAL,
    "SecretKeySelector": _LOCAL,
    "SecretProjection": _LOCAL,
    "DeviceAllocationConfiguration": _CONFIGURATION,
    "DeviceClaimConfiguration": _CONFIGURATION,
    "DeviceClassConfiguration": _CONFIGURATION,
    "Probe": {name: f"ProbeHandler.{name}" for name in ("exec", "grpc", "httpGet", "tcpSocket")},
    "RuleWithOperations": _RULE,
    "NamedRuleWithOperations": {
        "operations": "RuleWithOperations.operations",
        **{name: f"RuleWithOperations.{path}" for name, path in _RULE.items()},
    },
}
#: structs in which all fields but these belong to one embedded struct
_ALL_BUT = {
    "Volume": ("VolumeSource", frozenset({"name"})),
    "EphemeralContainer": ("EphemeralContainerCommon", frozenset({"targetContainerName"})),
    "PersistentVolumeSpec": (
        "PersistentVolumeSource",
        frozenset(
            {
                "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy",
                "storageClassName", "volumeAttributesClassName", "volumeMode",
            }
        ),
    ),
}  # fmt: skip
_TYPE_META = ("kind", "apiVersion")


def embedded_name(type_: Type, name: str) -> str:
    """A field's name with the embedded structs before it: ``VolumeSource.configMap``."""
    some = _SOME.get(type_.name)
    if some is not None:
        return some.get(name, name)
    most = _ALL_BUT.get(type_.name)
    if most is not None:
        return name if name in most[1] else f"{most[0]}.{name}"
    if name in _TYPE_META and tuple(type_.fields)[:2] == _TYPE_META:
        return f"TypeMeta.{name}"
    return name
