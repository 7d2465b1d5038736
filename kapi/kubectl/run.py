"""``kapi run`` (upstream: kubectl ``cmd/run``): a pod of one container, and a service for it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kapi.client.errors import StatusError
from kapi.kubectl.attach import attach_when_running, state_of
from kapi.kubectl.command import Help
from kapi.kubectl.creating import OVERRIDES, create_generated, labels_of, overridden
from kapi.kubectl.expose import service, service_ports
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import FILENAME, PRINT, Flag, UsageError, read_pairs, shared
from kapi.kubectl.info import Info
from kapi.kubectl.messages import CommandError
from kapi.kubectl.pods_of import check_pod_timeout
from kapi.kubectl.print_flags import printer_for
from kapi.kubectl.waiting import FOREVER_SECONDS, wait_for
from kapi.kubectl.writing import FLAGS as DELETE
from kapi.kubectl.writing import delete_options, dry_run_strategy, dry_run_suffix, recorded
from kapi.machinery.golang import quote
from kapi.machinery.status import NotFound
from kapi.machinery.tree import Object

_RESTARTS, _PULLS = ("Always", "OnFailure", "Never"), ("Always", "IfNotPresent", "Never")
_VARIABLE = re.compile(r"(?!\.$|\.\.)[-._a-zA-Z][-._a-zA-Z0-9]*")
_WORD = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_HOST = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
#: a reference to an image (upstream: ``distribution/reference``)
IMAGE = re.compile(
    rf"(?:(?:{_HOST}(?:\.{_HOST})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?/)?{_WORD}(?:/{_WORD})*(?::\w[\w.-]{{0,127}})?"
    r"(?:@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)
_ATTACHED_DRY_RUN = (
    "--dry-run=[server|client] can't be used with attached containers options (--attach, --stdin, or --tty)"
)
_IGNORED = "it is ignored by kapi run and will be removed in a future release"
FLAGS = (
    *PRINT,
    *OVERRIDES,
    *shared("dry-run save-config field-manager image-pull-policy attach detach-keys stdin tty quiet pod-running-timeout record"),
    Flag("image", required=True, help="The image of the container."),
    Flag("command", "bool", help="The arguments after the name are the container's command, not its arguments."),
    Flag("annotations", "array", help="An annotation of the pod, KEY=VALUE; may be repeated."),
    Flag("labels", short="l", help="The labels of the pod, KEY=VALUE, separated by commas; by default run=NAME."),
    Flag("env", "array", help="A variable of the container's environment, NAME=VALUE; may be repeated."),
    Flag("port", help="The port that the container listens on."),
    Flag("expose", "bool", help="Make a service for the port too."),
    Flag("restart", default="Always", help="When the container is started again: Always, OnFailure or Never."),
    Flag("privileged", "bool", help="The container may do what processes of the node may do."),
    Flag("leave-stdin-open", "bool", help="Standard input of the container stays open after the first connection to it."),
    Flag("rm", "bool", help="Delete the pod at the end; only for a container that is attached to."),
    *(
        flag._replace(help="Has no effect here.", deprecated=_IGNORED if flag.name == "filename" else "")
        for flag in (*FILENAME, *DELETE, *shared("wait"))
    ),
)  # fmt: skip
HELP = Help(
    "NAME --image=IMAGE [--env=KEY=VALUE] [--port=PORT] [--overrides=JSON] [--command] -- [COMMAND] [ARGUMENT ...]",
    "Makes a pod that runs an image. With --attach or -i it waits until the pod runs, and joins it.",
    ("Run an image", "run web --image=nginx --port=80"),
    ("Show what would be created", "run web --image=nginx --dry-run=client -o yaml"),
    ("Run another command of the image", "run clock --image=busybox --restart=Never --command -- date -u"),
    ("Use a shell, and leave nothing behind", "run shell --image=busybox -i -t --rm --restart=Never"),
)


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    dry_run = dry_run_strategy(flags.get_string("dry-run"))
    printer = printer_for(flags, f"created{dry_run_suffix(dry_run)}", typed=True)
    attached = flags.get_bool("attach") if flags.given("attach") else flags.get_bool("stdin")
    _check(factory, dry_run, attached)
    made = [await create_generated(factory, overridden(factory, program, _pod(factory)), "pods")]
    if flags.get_bool("expose"):
        made.append(await create_generated(factory, recorded(factory, program, _service(factory)), "services"))
    if not attached:
        for obj in made:
            factory.out.write(printer.print(obj))
        return 0
    async with _removed(factory, made):
        return await _attached(factory, made[0])


def _check(factory: Factory, dry_run: str, attached: bool) -> None:
    """Raises CommandError for flags that do not go together."""
    flags = factory.flags
    restart, policy, image = (flags.get_string(name) for name in ("restart", "image-pull-policy", "image"))
    if not flags.arguments or flags.dash == 0:
        raise CommandError("NAME is required for run")
    check_pod_timeout(factory)
    checks = (
        (not image, "--image is required"),
        (not IMAGE.fullmatch(image), f"invalid image name {quote(image)}: invalid reference format"),
        (
            flags.get_bool("tty") and not flags.get_bool("stdin"),
            "-i/--stdin is required for containers with -t/--tty=true",
        ),
        (flags.get_bool("expose") and not flags.get_string("port"), "--port must be set when exposing a service"),
        (
            restart not in ("", *_RESTARTS),
            f"invalid restart policy: {restart}, valid values are: {', '.join(_RESTARTS)}",
        ),
        (flags.get_bool("rm") and not attached, "--rm should only be used for attached containers"),
        (attached and dry_run != "none", _ATTACHED_DRY_RUN),
        (policy not in ("", *_PULLS), f"invalid image pull policy: {policy}, valid values are: {', '.join(_PULLS)}"),
        (
            bool(flags.get_string("port")) and not re.fullmatch(r"[+-]?\d+", flags.get_string("port")),
            "--port must be a number",
        ),
    )
    for wrong, message in checks:
        if wrong:
            raise CommandError(message)


def _restart(factory: Factory) -> str:
    """The restart policy of the flag; without the flag, an interactive container is not started again after success."""
    return factory.flags.get_string("restart") or ("OnFailure" if factory.flags.get_bool("stdin") else "Always")


def _labels(factory: Factory) -> dict[str, str]:
    text = factory.flags.get_string("labels")
    return labels_of(text) if text else {"run": factory.flags.arguments[0]}


def _pod(factory: Factory) -> Object:
    """Raises CommandError."""
    flags = factory.flags
    name, *arguments = flags.arguments
    container: Object = {"name": name, "image": flags.get_string("image")}
    if arguments:
        container["command" if flags.get_bool("command") else "args"] = arguments
    if flags.get_string("port"):
        container["ports"] = [{"containerPort": int(flags.get_string("port"))}]
    if flags.get_list("env"):
        container["env"] = [_variable(text) for text in flags.get_list("env")]
    container["resources"] = {}
    if flags.get_string("image-pull-policy"):
        container["imagePullPolicy"] = flags.get_string("image-pull-policy")
    if flags.get_bool("privileged"):
        container["securityContext"] = {"privileged": True}
    stdin = flags.get_bool("stdin")
    states = {
        "stdin": stdin,
        "stdinOnce": stdin and not flags.get_bool("leave-stdin-open"),
        "tty": flags.get_bool("tty"),
    }
    container |= {key: value for key, value in states.items() if value}
    metadata: Object = {"name": name, "labels": _labels(factory)}
    try:
        annotations, _ = read_pairs(flags, "annotations")
    except UsageError as error:
        raise CommandError(str(error)) from None
    if annotations:
        metadata["annotations"] = annotations
    spec = {"containers": [container], "restartPolicy": _restart(factory), "dnsPolicy": "ClusterFirst"}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": {}}


def _variable(text: str) -> Object:
    name, equals, value = text.partition("=")
    if not equals or not _VARIABLE.fullmatch(name):
        raise CommandError(f"invalid env: {text}")
    return {"name": name, "value": value}


def _service(factory: Factory) -> Object:
    flags = factory.flags
    labels = _labels(factory) if flags.get_string("labels") else None
    return service(flags.arguments[0], _labels(factory), labels, service_ports([flags.get_string("port")], []))


@asynccontextmanager
async def _removed(factory: Factory, made: list[Object]) -> AsyncIterator[None]:
    """Deletes the objects at the end, with ``--rm``."""
    try:
        yield
    finally:
        for obj in made if factory.flags.get_bool("rm") else ():
            kind, name, namespace = obj["kind"].lower(), obj["metadata"]["name"], obj["metadata"]["namespace"]
            mapping = await factory.mapper.resource_for(kind)
            try:
                await Info(factory.client("v1"), mapping, namespace, name).delete(
                    delete_options("Background", -1, "none")
                )
            except NotFound:
                continue
            if not factory.flags.get_bool("quiet"):
                factory.out.write(f'{kind} "{name}" deleted from {namespace} namespace\n')


async def _attached(factory: Factory, pod: Object) -> int:
    """Attaches to the container.  The exit code is the container's, unless it is started again.  Raises CommandError."""
    flags = factory.flags
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    container = pod["spec"]["containers"][0]["name"]
    seconds = flags.get_duration("pod-running-timeout")
    try:
        await attach_when_running(factory, pod, container, seconds, from_start=True)
    except StatusError as error:
        raise CommandError(error.message) from None
    restart = pod["spec"].get("restartPolicy")
    if flags.get_bool("leave-stdin-open") or restart == "Always":
        return 0
    ended = ("Succeeded",) if restart == "OnFailure" else ("Succeeded", "Failed")

    def done(found: Object | None) -> bool:
        return found is None or (found.get("status") or {}).get("phase") in ended

    info = Info(factory.client("v1"), await factory.mapper.resource_for("pods"), namespace, name)
    found = await wait_for(factory, info, done, factory.reactor.seconds() + FOREVER_SECONDS)
    if found is None:
        raise CommandError(f'pods "{name}" not found')
    if found["status"]["phase"] == "Succeeded":
        return 0
    end = state_of(found, container).get("terminated") or {}
    if not end.get("exitCode"):
        raise CommandError(f"pod {namespace}/{name} failed with unknown exit code")
    text = f"pod {namespace}/{name} terminated ({end.get('reason', '')})\n{end.get('message', '')}"
    raise CommandError(text, code=end["exitCode"], plain=True)
