"""Query and path parameters of operations, with texts of our own."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]
_TEXTS = {
    "allowWatchBookmarks": ("boolean", "Asks a watch for BOOKMARK events, which carry nothing but a resourceVersion."),
    "continue": ("string", "The token of the previous page of a list, to be sent with otherwise unchanged options."),
    "dryRun": ("string", "All: everything is done but the write itself."),
    "fieldManager": ("string", "The name under which the changed fields are owned; at most 128 printable characters."),
    "fieldSelector": ("string", "Restricts the answer to objects whose fields match."),
    "fieldValidation": (
        "string",
        "What happens to unknown and duplicate fields of a body: Ignore drops them, Warn (the default) drops them with a "
        "warning for each, Strict refuses the request and names all of them.",
    ),
    "force": ("boolean", "Takes over fields that others own.  Only for apply."),
    "gracePeriodSeconds": ("integer", "Seconds until the object is deleted; zero deletes at once."),
    "ignoreStoreReadErrorWithClusterBreakingPotential": ("boolean", "Deletes an object that cannot be read."),
    "labelSelector": ("string", "Restricts the answer to objects whose labels match."),
    "limit": ("integer", "The largest number of objects in one page."),
    "orphanDependents": ("boolean", "Deprecated: use propagationPolicy."),
    "pretty": ("string", "true: the answer is indented."),
    "propagationPolicy": ("string", "What happens to dependents: Orphan, Background or Foreground."),
    "resourceVersion": ("string", "From which version on to watch, or which version to read."),
    "resourceVersionMatch": ("string", "How resourceVersion is applied to a list: Exact or NotOlderThan."),
    "sendInitialEvents": ("boolean", "A watch begins with the objects there are, then a bookmark."),
    "shardSelector": ("string", "Restricts the answer to one shard of the objects."),
    "timeoutSeconds": ("integer", "Ends the call after this time, whatever happens."),
    "watch": ("boolean", "Answers a stream of changes instead of a list."),
}  # fmt: skip


def query(name: str) -> Object:
    kind, text = _TEXTS[name]
    return {"description": text, "in": "query", "name": name, "schema": {"type": kind, "uniqueItems": True}}


def in_path(name: str, text: str) -> Object:
    schema = {"type": "string", "uniqueItems": True}
    return {"description": text, "in": "path", "name": name, "required": True, "schema": schema}


LIST_PARAMETERS: list[Object] = [
    query(name)
    for name in (
        "allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion",
        "resourceVersionMatch", "sendInitialEvents", "shardSelector", "timeoutSeconds", "watch",
    )
]  # fmt: skip
WRITE_PARAMETERS: list[Object] = [query(name) for name in ("dryRun", "fieldManager", "fieldValidation")]
PATCH_PARAMETERS: list[Object] = [*WRITE_PARAMETERS, query("force")]
DELETE_PARAMETERS: list[Object] = [
    query(name)
    for name in (
        "dryRun", "gracePeriodSeconds", "ignoreStoreReadErrorWithClusterBreakingPotential", "orphanDependents",
        "propagationPolicy",
    )
]  # fmt: skip
#: kind of the options of a connection -> query option -> (type, text)
CONNECT_OPTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "PodAttachOptions": {
        "container": ("string", "The container to attach to; the only one by default."),
        "stderr": ("boolean", "Whether standard error is sent."),
        "stdin": ("boolean", "Whether standard input is read."),
        "stdout": ("boolean", "Whether standard output is sent."),
        "tty": ("boolean", "Whether a terminal is allocated."),
    },
    "PodExecOptions": {
        "command": ("string", "The command with its arguments; not run in a shell."),
        "container": ("string", "The container to run it in; the only one by default."),
        "stderr": ("boolean", "Whether standard error is sent."),
        "stdin": ("boolean", "Whether standard input is read."),
        "stdout": ("boolean", "Whether standard output is sent."),
        "tty": ("boolean", "Whether a terminal is allocated."),
    },
    "PodPortForwardOptions": {"ports": ("integer", "The ports to forward, for clients on WebSocket.")},
    "PodProxyOptions": {"path": ("string", "The path the request is sent on to.")},
    "ServiceProxyOptions": {"path": ("string", "The path the request is sent on to.")},
    "NodeProxyOptions": {"path": ("string", "The path the request is sent on to.")},
    "PodLogOptions": {
        "container": ("string", "The container whose log is read; the only one by default."),
        "follow": ("boolean", "Whether the stream goes on with what is written later."),
        "insecureSkipTLSVerifyBackend": ("boolean", "Whether the kubelet's certificate is left unchecked."),
        "limitBytes": ("integer", "The number of bytes after which the log ends."),
        "previous": ("boolean", "Whether the log of the terminated container is read."),
        "sinceSeconds": ("integer", "How far back the log begins."),
        "stream": ("string", "All, Stdout or Stderr."),
        "tailLines": ("integer", "The number of lines from the end."),
        "timestamps": ("boolean", "Whether each line begins with its time."),
    },
}


def option(kind: str, name: str) -> Object:
    """A query option of a connection."""
    type_, text = CONNECT_OPTIONS[kind][name]
    return {"description": text, "in": "query", "name": name, "schema": {"type": type_, "uniqueItems": True}}
