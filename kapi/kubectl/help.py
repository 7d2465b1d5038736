"""Help texts: of ``kapi``, of each client command, and of the flags that do the same in each command.

Upstream: kubectl ``util/templates``.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from kapi.kubectl.command import Command
from kapi.kubectl.commands import ENTRIES, GROUPS
from kapi.kubectl.flags import Flag, Value
from kapi.machinery.golang import duration_text

_WIDTH = 112
_GLOBAL = 'Use "{0} options" for the flags that all client commands have.\n'


def overview(program: str) -> str:
    """The help of the program: its commands by group."""
    text = (
        f"{program} is a Kubernetes API server, and a client of one with kubectl's commands.\n\n"
        f"Usage: {program} [flags]             (starts the server; {program} --help-server lists its flags)\n"
        f"       {program} <command> [flags]\n"
    )
    width = max(map(len, ENTRIES)) + 3
    for title, entries in GROUPS.items():
        text += f"\n{title}:\n" + "".join(f"  {entry.name:<{width}}{entry.summary}\n" for entry in entries)
    return text + f'\nUse "{program} <command> --help" for more about a command.\n' + _GLOBAL.format(program)


def command_help(program: str, path: str, command: Command) -> str:
    """The help of a client command; ``path`` is its name with those above it."""
    described = command.help
    parts = [f"{described.description or command.summary + '.'}\n"]
    if described.examples:
        lines = [f"  # {what}\n  {program} {line}\n" for what, line in described.examples]
        parts.append("Examples:\n" + "\n".join(lines))
    if command.subcommands:
        width = max(len(one.name) for one in command.subcommands) + 3
        parts.append(
            "Available Commands:\n"
            + "".join(f"  {one.name:<{width}}{one.summary}\n" for one in sorted(command.subcommands, key=_name))
        )
    if command.flags:
        parts.append("Options:\n" + flag_lines(command.flags))
    usage = described.usage or ("SUBCOMMAND" if command.subcommands else "")
    parts.append("Usage:\n  " + " ".join(filter(None, (program, path, usage, "[options]"))) + "\n")
    end = f'Use "{program} {path} <command> --help" for more about a command.\n' if command.subcommands else ""
    return "\n".join(parts) + "\n" + end + _GLOBAL.format(program)


def _name(command: Command) -> str:
    return command.name


def flag_lines(flags: Iterable[Flag]) -> str:
    """Each flag with its default and description."""
    return "\n".join(_flag(flag) for flag in sorted(flags, key=lambda flag: flag.name))


def _flag(flag: Flag) -> str:
    short = f"-{flag.short}, " if flag.short else ""
    lines = textwrap.wrap(text_of(flag), _WIDTH, break_long_words=False, break_on_hyphens=False)
    return f"    {short}--{flag.name}={_default(flag)}:\n" + "".join(f"        {line}\n" for line in lines)


def text_of(flag: Flag) -> str:
    """The description of a flag: its own text, or the text of all flags with this name."""
    return flag.help or TEXTS.get(flag.name, "")


def _default(flag: Flag) -> str:
    default: Value = flag.default
    match flag.kind:
        case "bool":
            return "true" if default else "false"
        case "int" | "int32":
            return str(default or 0)
        case "duration":
            return duration_text(float(default) if isinstance(default, int | float) else 0.0)
        case "list" | "pairs" | "map" | "array":
            return f"[{','.join(default)}]" if isinstance(default, Sequence) else "[]"
    return f"'{default}'"


TEXTS = {
    "accept-hosts": "Patterns of the hosts that requests may be for, separated by commas.",
    "accept-paths": "Patterns of the paths that are sent on, separated by commas.",
    "add-dir-header": "Has no effect: kubectl's log lines are not written.",
    "address": "Addresses to listen on, separated by commas; localhost is 127.0.0.1 and ::1.",
    "all": "All objects of the given types in the namespace.",
    "all-containers": "All containers of the pod.",
    "all-namespaces": "The objects of all namespaces; the namespace of the context is not used.",
    "all-pods": "All pods of the given object, each line with the name of its pod.",
    "allow-missing-template-keys": "A field or key that is missing is no error in a template (go-template and jsonpath).",
    "api-group": "Only the resources of this group.",
    "api-prefix": "The path below which the API is served.",
    "api-version": "The group version that is meant, such as apps/v1.",
    "append-server-path": "Put the path of the kubeconfig's server before each path.",
    "arguments-only": "What follows -- are the container's arguments, not its command.",
    "as": "The user to act as: a name, or system:serviceaccount:NAMESPACE:NAME.",
    "as-group": "A group to act as a member of; may be repeated.",
    "as-uid": "The UID to act with.",
    "as-user-extra": "Extra fields of the user to act as, KEY=VALUE; may be repeated.",
    "attach": "Wait until the container runs, and join it; so by default with -i.",
    "cache-dir": "Where discovery is kept between commands.",
    "cached": "Use the discovery that is kept on disk, if there is one.",
    "cascade": "How dependents are deleted: background, foreground, or orphan, which keeps them.",
    "categories": "Only resources of these categories.",
    "certificate-authority": "A file with the certificates that the server's is checked against.",
    "chunk-size": "Lists are read in pages of so many objects; 0 reads them in one piece.",
    "client": "The version of the client only.",
    "client-certificate": "A file with the client's certificate.",
    "client-key": "A file with the key of the client's certificate.",
    "cluster": "The cluster of the kubeconfig to use.",
    "concurrency": "Has no effect: objects are compared one after the other.",
    "container": "The container; without it, the annotated or the first one of the pod.",
    "containers": "The containers that are meant, by name; * stands for any characters.",
    "context": "The context of the kubeconfig to use.",
    "copy-to": "Make a copy of the pod with this name, and change that.",
    "delete-emptydir-data": "Go on though pods have data in emptyDir volumes, which is lost.",
    "detach-keys": "The keys that end the connection.",
    "disable-compression": "Ask for answers without compression, as is always done here.",
    "disable-eviction": "Delete pods instead of evicting them: PodDisruptionBudgets do not count then.",
    "disable-filter": "Send all requests on. Pages of any site can then use the port.",
    "dry-run": "none, client (only show what would be sent), or server (the server does all but store it).",
    "env": "Environment variables of the container, NAME=VALUE, separated by commas.",
    "field-manager": "The name of the owner of the fields that are written.",
    "field-selector": "Only objects with these fields: =, == and !=, for instance metadata.name=web.",
    "filename": "Files, directories or URLs with the objects; - is standard input.",
    "flatten": "Put the content of files that the kubeconfig names into it, so that it can be moved.",
    "follow": "Go on with lines as they are written.",
    "for": "The condition: create, delete, condition=NAME[=VALUE] or jsonpath='{PATH}'[=VALUE].",
    "force": "Delete at once, without waiting for the end of what runs; may lose data.",
    "force-conflicts": "Take fields over that belong to other managers (server-side).",
    "grace-period": "The seconds that an object gets to end; negative for its own time, 0 only with --force.",
    "ignore-daemonsets": "Leave the pods of DaemonSets where they are.",
    "ignore-errors": "Go on with other pods when one fails.",
    "ignore-not-found": "An object that is not there is no error.",
    "image": "The image of the container.",
    "image-pull-policy": "When the image is pulled: Always, IfNotPresent or Never.",
    "insecure-skip-tls-verify": "Accept any certificate of the server; the connection is not safe then.",
    "insecure-skip-tls-verify-backend": "Accept any certificate of the kubelet that has the logs.",
    "interactive": "Ask before something is deleted.",
    "keep-annotations": "Keep the annotations in the copy.",
    "keep-init-containers": "Keep the init containers in the copy.",
    "keep-labels": "Keep the labels in the copy.",
    "keep-liveness": "Keep the liveness probes in the copy.",
    "keep-readiness": "Keep the readiness probes in the copy.",
    "keep-startup": "Keep the startup probes in the copy.",
    "keepalive": "Has no effect: the system decides when idle connections are checked.",
    "kubeconfig": "The kubeconfig file; before $KUBECONFIG and ~/.kube/config.",
    "kuberc": "The file of preferences; KUBERC=off in the environment turns them off.",
    "kustomize": "A kustomization directory; not together with -f and -R.",
    "label-columns": "Labels to show as columns, separated by commas; may be repeated.",
    "limit-bytes": "The most bytes of logs to print; 0 for all.",
    "list": "List all that is allowed in the namespace.",
    "local": "Work on the files alone, without a server.",
    "log-flush-frequency": "Has no effect: messages are written at once.",
    "logical-cluster": "The logical cluster of the test server.",
    "match-server-version": "Fail when client and server have different versions.",
    "max-log-requests": "How many logs are followed at a time.",
    "merge": "Merge all kubeconfig files in use.",
    "minify": "Only what the current context uses.",
    "name-only": "Print names instead of paths.",
    "namespace": "The namespace to work in.",
    "namespaced": "Only resources with (true) or without (false) a namespace.",
    "namespaces": "The namespaces that are meant, separated by commas.",
    "no-headers": "Print no line of headers.",
    "no-preserve": "Do not keep owners and modes.",
    "now": "Objects get one second to end.",
    "openapi-patch": "Has no effect: patches follow the server's schema where it has one.",
    "output": "The format: json, yaml, kyaml, name, wide, custom-columns, go-template or jsonpath, with -file for one in a file.",
    "output-directory": "The directory for the files; - or nothing for standard output.",
    "output-watch-events": "Show with each object what happened: ADDED, MODIFIED or DELETED.",
    "overwrite": "Values that are there may be replaced.",
    "password": "The password of basic authentication.",
    "pod-running-timeout": "How long to wait until a pod runs, such as 5s, 2m or 3h.",
    "pod-selector": "Only pods with these labels.",
    "port": "The port to listen on; 0 for any that is free.",
    "prefix": "Begin each line with the pod and the container that it comes from.",
    "previous": "The logs of the container that ran before.",
    "profile": "none; Python's own profiler is python -m cProfile -m kapi.",
    "profile-output": "Has no effect: no profiles are written.",
    "proxy-url": "The proxy to connect through.",
    "prune": "Delete objects that were applied before and that no file has any more.",
    "prune-allowlist": "The kinds that --prune may delete, GROUP/VERSION/KIND; may be repeated.",
    "quiet": "Print no messages beside the output.",
    "raw": "A path on the server; the answer is printed as it comes.",
    "record": "Keep the command line in an annotation of the object. Deprecated.",
    "recursive": "Read the directories in -f with those below them.",
    "reject-methods": "Patterns of methods that are not sent on, separated by commas.",
    "reject-paths": "Patterns of paths that are not sent on, separated by commas.",
    "remove-extra-permissions": "Take away rules that the file does not have.",
    "remove-extra-subjects": "Take away subjects that the file does not have.",
    "replace": "Delete the pod that was copied.",
    "request-timeout": "How long a request may take, such as 1s, 2m or 3h; 0 for no limit.",
    "resource-version": "Only if the object has this resourceVersion.",
    "retries": "How often a copy that breaks off is taken up again; 0 for never, negative for always.",
    "same-node": "Run the copy on the node of the pod.",
    "save-config": "Keep the object in its annotation, so that apply can be used with it later.",
    "selector": "Only objects with these labels: =, ==, !=, in, notin, for instance app=web.",
    "server": "The address of the server.",
    "server-print": "Let the server choose and fill the columns.",
    "server-side": "Let the server merge the manifest (server-side apply).",
    "set-image": "Images of the copy's containers, NAME=IMAGE; * is the name of all.",
    "share-processes": "Let the containers of the copy see the processes of each other.",
    "show-capacity": "Percentages are of the capacity, not of what is allocatable.",
    "show-events": "Show the events about an object.",
    "show-kind": "Show the kind before each name.",
    "show-labels": "Show all labels as the last column.",
    "show-managed-fields": "Keep the managedFields in JSON and YAML.",
    "show-secrets": "Print the values of Secrets.",
    "show-swap": "Show swap memory too.",
    "since": "Only lines newer than this, such as 5s, 2m or 3h.",
    "since-time": "Only lines after this time (RFC3339).",
    "skip-wait-for-delete-timeout": "Do not wait for pods that have been in deletion for more seconds than this.",
    "sort-by": "Sort the list by a field, such as '{.metadata.name}'.",
    "stdin": "Pass standard input on.",
    "subresource": "The subresource that is meant, such as status or scale.",
    "sum": "Print the sum below.",
    "tail": "Only the last lines, so many; -1 for all.",
    "target": "The container whose processes the new one sees.",
    "template": "The template, or its file, of -o go-template, jsonpath and their -file forms.",
    "timeout": "How long to wait, such as 1s, 2m or 3h; 0 decides by the object.",
    "timestamps": "Begin each line with its time.",
    "tls-server-name": "The name that the server's certificate is checked against.",
    "token": "The bearer token.",
    "tty": "Standard input is a terminal.",
    "types": "Only events of these types: Normal, Warning.",
    "unix-socket": "A socket to listen on in place of a port.",
    "use-protocol-buffers": "Has no effect: metrics are read as JSON.",
    "user": "The user of the kubeconfig to use.",
    "username": "The name of basic authentication.",
    "v": "How much is shown of requests: 6 answers, 7 their headers, 8 also headers and bodies of answers, 9 curl commands.",
    "validate": "Fields that are unknown or given twice: strict (an error), warn or ignore.",
    "verbs": "Only resources with these verbs.",
    "vmodule": "Has no effect: there are no log lines by file.",
    "wait": "Wait until the objects are gone.",
    "warnings-as-errors": "A warning of the server ends the command with an error.",
    "watch": "Show the objects, then each change.",
    "watch-only": "Show each change, without the objects that are there.",
    "www": "A directory whose files are served too.",
    "www-prefix": "The path below which those files are served.",
}
