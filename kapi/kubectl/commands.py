"""The names of the client commands: ``port-forward`` is the module ``port_forward``, with its ``run`` and ``FLAGS``."""

from __future__ import annotations

COMMANDS = (
    "get", "create", "apply", "delete", "logs", "attach", "exec", "port-forward", "wait", "explain", "api-resources",
    "api-versions", "auth", "certificate", "changes", "cluster-info", "completion", "config", "cordon", "cp", "describe", "diff",
    "drain", "events", "plugin", "replace", "snapshot", "taint", "top", "uncordon", "version",
)  # fmt: skip


def module_of(command: str) -> str:
    return f"kapi.kubectl.{command.replace('-', '_')}"
