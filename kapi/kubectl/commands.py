"""All commands of ``kapi``, by the groups of its help: the only list, which start, help, completion and manual use.

``port-forward`` is the module ``kapi.kubectl.port_forward``; ``command.py`` describes the modules of commands.
"""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """``program``: "module:function" of a program that is not a client command; it gets the arguments after the name."""

    name: str
    summary: str
    program: str = ""


GROUPS: dict[str, tuple[Entry, ...]] = {
    "Basic Commands (Beginner)": (
        Entry("create", "Create objects from files or from flags"),
        Entry("expose", "Make a service for a workload, a pod or a service"),
        Entry("run", "Run an image in a pod"),
        Entry("set", "Set single parts of objects, such as images"),
    ),
    "Basic Commands (Intermediate)": (
        Entry("explain", "Show the fields of a kind of object"),
        Entry("get", "List objects, or show some of them"),
        Entry("edit", "Change objects in an editor"),
        Entry("delete", "Delete objects by file, by name or by selector"),
    ),
    "Deploy Commands": (
        Entry("rollout", "Follow and change how workloads bring new pods"),
        Entry("scale", "Set how many pods a workload has"),
        Entry("autoscale", "Let a workload have as many pods as its load needs"),
    ),
    "Cluster Management Commands": (
        Entry("certificate", "Approve and deny certificate signing requests"),
        Entry("cluster-info", "Show where the services of the cluster are"),
        Entry("top", "Show the CPU and memory that nodes and pods use"),
        Entry("cordon", "Keep new pods away from nodes"),
        Entry("uncordon", "Let new pods come to nodes again"),
        Entry("drain", "Empty nodes before maintenance"),
        Entry("taint", "Change the taints of nodes"),
    ),
    "Troubleshooting and Debugging Commands": (
        Entry("describe", "Show objects in detail, with their events"),
        Entry("logs", "Print the logs of a container"),
        Entry("attach", "Attach to the main process of a container"),
        Entry("exec", "Run a program in a container"),
        Entry("port-forward", "Forward local ports to a pod"),
        Entry("proxy", "Serve the API on a port of this machine"),
        Entry("auth", "Ask what a user may do, and who one is"),
        Entry("cp", "Copy files to and from containers"),
        Entry("debug", "Look into pods and nodes with a container of one's own"),
        Entry("events", "List events"),
    ),
    "Advanced Commands": (
        Entry("diff", "Compare files with what the server has"),
        Entry("apply", "Make objects as files describe them"),
        Entry("patch", "Change fields of objects"),
        Entry("replace", "Replace objects by what files say"),
        Entry("kustomize", "Print the manifests of a kustomization"),
        Entry("wait", "Wait until objects meet a condition"),
    ),
    "Settings Commands": (
        Entry("label", "Set and remove labels of objects"),
        Entry("annotate", "Set and remove annotations of objects"),
        Entry("completion", "Print the completion script of a shell"),
    ),
    "Server Commands": (
        Entry("backup", "Write all objects and keys of a server to a file", "kapi.backup.command:backup"),
        Entry("restore", "Fill an empty store from a backup", "kapi.backup.command:restore"),
        Entry("snapshot", "Save and load the state of a test server"),
        Entry("changes", "Show what changed on a test server between two revisions"),
        Entry("envtest-assets", "Write the programs that envtest starts", "kapi.dropin.assets:main"),
    ),
    "Other Commands": (
        Entry("api-resources", "List the resources that the server has"),
        Entry("api-versions", "List the group versions that the server has"),
        Entry("config", "Show and change kubeconfig files"),
        Entry("kuberc", "Show and change preferences of commands"),
        Entry("options", "List the flags that all client commands have"),
        Entry("plugin", "Find plugins of kubectl"),
        Entry("version", "Show the versions of client and server"),
    ),
}  # fmt: skip
ENTRIES = {entry.name: entry for entries in GROUPS.values() for entry in entries}
#: where a command is that has no module of its own
_MODULES = {"cordon": "drain", "uncordon": "drain", "api-versions": "api_resources", "options": "help"}
#: the client's commands
COMMANDS = tuple(name for name, entry in ENTRIES.items() if not entry.program)


def module_of(command: str) -> str:
    return f"kapi.kubectl.{_MODULES.get(command, command.replace('-', '_'))}"


def client_command(arguments: list[str]) -> list[str] | None:
    """The client's command before its flags; None when there is none.  Flags of all commands may come first."""
    if arguments[:1] and arguments[0] in COMMANDS:
        return arguments
    if not any(argument in COMMANDS for argument in arguments):
        return None
    from kapi.kubectl.flags import leading

    count = leading(arguments)
    if count < len(arguments) and arguments[count] in COMMANDS:
        return [arguments[count], *arguments[:count], *arguments[count + 1 :]]
    return None
