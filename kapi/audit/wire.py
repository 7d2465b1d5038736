"""The encoding of an audit.k8s.io/v1 Event: fields in upstream's order, without empty ones."""

from __future__ import annotations

import msgspec

from kapi.machinery.tree import Object
from kapi.request.info import RequestInfo


class ObjectReference(msgspec.Struct, omit_defaults=True, gc=False):
    resource: str
    namespace: str = ""
    name: str = ""
    uid: str = ""
    apiGroup: str = ""
    apiVersion: str = ""
    resourceVersion: str = ""
    subresource: str = ""


class Event(msgspec.Struct, omit_defaults=True, gc=False):
    kind: str
    apiVersion: str
    level: str
    auditID: str
    stage: str
    requestURI: str
    verb: str
    user: msgspec.Raw
    impersonatedUser: msgspec.Raw | None = None
    authenticationMetadata: Object | None = None
    sourceIPs: list[str] | None = None
    userAgent: str = ""
    objectRef: ObjectReference | None = None
    responseStatus: Object | None = None
    requestObject: msgspec.Raw | None = None
    responseObject: msgspec.Raw | None = None
    requestReceivedTimestamp: str = ""
    stageTimestamp: str = ""
    annotations: dict[str, str] | None = None


#: the JSON bytes of an event; raises when a string has unpaired surrogates
encode = msgspec.json.Encoder().encode


def reference(info: RequestInfo, learned: Object | None = None) -> ObjectReference:
    """The object that the path names; ``learned`` has fields of the object that are not in the path."""
    made = ObjectReference(
        info.resource,
        info.namespace,
        info.name,
        apiGroup=info.group,
        apiVersion=info.version,
        subresource=info.subresource,
    )
    if learned:
        made.namespace = made.namespace or learned.get("namespace", "")
        made.name = made.name or learned.get("name", "")
        made.uid = learned.get("uid", "")
        made.resourceVersion = learned.get("resourceVersion", "")
    return made
