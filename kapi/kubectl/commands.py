"""The names of the client commands: ``port-forward`` is the module ``port_forward``, with its ``run`` and ``FLAGS``."""

from __future__ import annotations

COMMANDS = (
    "get", "create", "apply", "delete", "logs", "attach", "exec", "port-forward", "wait", "explain", "api-resources",
    "api-versions", "config", "describe", "snapshot", "diff", "completion",
)  # fmt: skip


def module_of(command: str) -> str:
    return f"kapi.kubectl.{command.replace('-', '_')}"
