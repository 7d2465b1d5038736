"""Pod (v1)."""

from __future__ import annotations

from kapi.resources.definition import Resource, Subresource

RESOURCE = Resource(
    group="",
    version="v1",
    kind="Pod",
    plural="pods",
    singular="pod",
    namespaced=True,
    returns_deleted=True,
    graceful=True,
    verbs=("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    short_names=("po",),
    categories=("all",),
    storage_version_hash="xPOwRZ+Yhw8=",
    subresources=(
        Subresource("attach", ("create", "get"), kind="PodAttachOptions", handler="attach"),
        Subresource("binding", ("create",), kind="Binding", handler="binding"),
        Subresource("ephemeralcontainers", ("get", "patch", "update"), kind="Pod"),
        Subresource("eviction", ("create",), group="policy", version="v1", kind="Eviction", handler="eviction"),
        Subresource("exec", ("create", "get"), kind="PodExecOptions", handler="exec"),
        Subresource("log", ("get",), kind="Pod", handler="log"),
        Subresource("portforward", ("create", "get"), kind="PodPortForwardOptions", handler="portforward"),
        Subresource("proxy", ("create", "delete", "get", "patch", "update"), kind="PodProxyOptions", handler="proxy"),
        Subresource("resize", ("get", "patch", "update"), kind="Pod"),
        Subresource("status", ("get", "patch", "update"), kind="Pod"),
    ),
)
