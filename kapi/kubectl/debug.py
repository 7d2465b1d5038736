"""``kapi debug``: a container in a pod, a copy of a pod, or a pod on a node, for debugging (upstream: ``cmd/debug``)."""

from __future__ import annotations

import random
from typing import NamedTuple

import orjson

from kapi.kubectl.attach import attach_when_running
from kapi.kubectl.builder import Builder
from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import Flag, shared
from kapi.kubectl.info import Info
from kapi.kubectl.messages import CommandError
from kapi.kubectl.run import IMAGE
from kapi.machinery import tree
from kapi.machinery.golang import quote
from kapi.machinery.tree import Object, dig

FLAGS = (
    *shared("filename attach container image-pull-policy stdin quiet tty"),
    Flag("arguments-only", "bool", help="What follows -- are the container's arguments, not its command."),
    Flag("copy-to", help="Make a copy of the pod with this name, and change that."),
    Flag("replace", "bool", help="Delete the pod that was copied."),
    Flag("env", "pairs", help="Environment variables of the container, NAME=VALUE, separated by commas."),
    Flag("image", help="The image of the container."),
    Flag("keep-labels", "bool", help="Keep the labels in the copy."),
    Flag("keep-annotations", "bool", help="Keep the annotations in the copy."),
    Flag("keep-liveness", "bool", help="Keep the liveness probes in the copy."),
    Flag("keep-readiness", "bool", help="Keep the readiness probes in the copy."),
    Flag("keep-startup", "bool", help="Keep the startup probes in the copy."),
    Flag("keep-init-containers", "bool", default=True, help="Keep the init containers in the copy."),
    Flag("set-image", "pairs", help="Images of the copy's containers, NAME=IMAGE; * is the name of all."),
    Flag("same-node", "bool", help="Run the copy on the node of the pod."),
    Flag(
        "share-processes", "bool", default=True, help="Let the containers of the copy see the processes of each other."
    ),
    Flag("target", help="The container whose processes the new one sees."),
    Flag(
        "profile",
        default="general",
        help="What the container may do: general, baseline, restricted, netadmin or sysadmin.",
    ),
    Flag("custom", help="A file in JSON or YAML with further fields of the container."),
)
HELP = Help(
    "(POD | TYPE/NAME) [-- COMMAND [ARGUMENTS]]",
    "Starts a container to look into a running pod, a copy of a pod or a node.",
    ("Add a container to a pod, and join it", "debug web-0 -it --image=busybox --target=app"),
    ("Copy a pod with another image", "debug web-0 --copy-to=web-debug --set-image=app=busybox"),
    ("Look into a node", "debug node/worker-1 -it --image=busybox"),
)
_LEGACY = (
    "--profile=legacy is deprecated and planned to be removed in v1.39. It is recommended to specify other profile, for "
    'example "--profile=general".\n'
)
_NOT_ROOT = (
    "Warning: Non-root user is configured for the entire target Pod, and some capabilities granted by debug profile may not "
    'work. Please consider using "--custom" with a custom profile that specifies "securityContext.runAsUser: 0".\n'
)
_FIXED = ("name", "command", "image", "lifecycle", "volumeDevices")  # what --custom may not have
_NO_SPEC = "does not contain a valid container spec"
_FORMAT = "invalid reference format"
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # of generated names


class Profile(NamedTuple):
    """The permissions of a debug container, and the host resources of a pod on a node.

    ``security`` is its security context, or None; ``added`` are additional capabilities, with ``traced`` only in pods, not on
    nodes.
    """

    security: Object | None = {}
    added: tuple[str, ...] = ()
    namespaces: bool = False
    root: bool = False
    traced: bool = False


_RESTRICTED: Object = {
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "allowPrivilegeEscalation": False,
    "seccompProfile": {"type": "RuntimeDefault"},
}
PROFILES = {
    "legacy": Profile(namespaces=True, root=True),
    "general": Profile(added=("SYS_PTRACE",), namespaces=True, root=True, traced=True),
    "baseline": Profile(security=None),
    "restricted": Profile(security=_RESTRICTED),
    "netadmin": Profile(added=("NET_ADMIN", "NET_RAW"), namespaces=True),
    "sysadmin": Profile(security={"privileged": True}, namespaces=True, root=True),
}


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    names, command = flags.arguments, []
    if flags.dash is not None:
        names, command = flags.arguments[: flags.dash], flags.arguments[flags.dash :]
    factory.check_namespace()
    debugging = Debugging(factory, command)
    factory.check_config()
    debugging.check(names)
    builder = Builder(factory, program).namespace(factory.namespace, enforce=bool(flags.get_string("namespace")))
    builder.filenames(flags.get_list("filename"), False).known()
    if not flags.get_list("filename"):
        builder.latest()
    result = await builder.resource_names("pods", names).do()
    async for info in result.visit(to_first_error=True):
        if info.mapping.kind not in ("Node", "Pod") or info.mapping.group:
            group, version, _, kind = info.mapping[:4]
            raise CommandError(f'"{group}/{version}, Kind={kind}" not supported by debug')
        pod, container = await (debugging.node(info) if info.mapping.kind == "Node" else debugging.pod(info))
        wanted = flags.get_bool("attach") if flags.given("attach") else flags.get_bool("stdin")
        if wanted and container:
            await attach_when_running(factory, pod, container)
    if result.errors:
        raise result.errors[0]
    return 0


class Debugging:
    def __init__(self, factory: Factory, command: list[str]) -> None:
        self._factory, self._command = factory, command
        images, variables = (
            dict(pair.split("=", 1) for pair in factory.flags.get_list(name)) for name in ("set-image", "env")
        )
        if factory.flags.get_string("profile") not in PROFILES:
            raise CommandError(f"unknown profile: {factory.flags.get_string('profile')}")
        self._images = images
        self._environment = [{"name": key, "value": value} for key, value in variables.items()]
        self._custom = _custom(factory.flags.get_string("custom"))

    def check(self, names: list[str]) -> None:
        """Raises CommandError for flags that do not go together."""
        flags = self._factory.flags
        copy, image, container = (flags.get_string(name) for name in ("copy-to", "image", "container"))
        problems: list[tuple[object, str]] = [
            (
                flags.get_bool("attach") and not image and not container,
                "you must specify --container or create a new container using --image in order to attach.",
            ),
            (
                copy and not (image or self._images or self._command),
                "you must specify --image, --set-image or command arguments.",
            ),
            (
                copy and self._command and not container and not image,
                "you must specify an existing container or a new image when specifying args.",
            ),
            (not copy and flags.get_bool("replace"), "--replace may only be used with --copy-to."),
            (not copy and flags.get_bool("same-node"), "--same-node may only be used with --copy-to."),
            (not copy and self._images, "--set-image may only be used with --copy-to."),
            (not copy and not image, "you must specify --image when not using --copy-to."),
            (image and not IMAGE.fullmatch(image), f"invalid image name {quote(image)}: {_FORMAT}"),
            (not names and not flags.get_list("filename"), "NAME or filename is required for debug"),
            (
                flags.get_string("image-pull-policy") not in ("", "Always", "IfNotPresent", "Never"),
                f"invalid image pull policy: {flags.get_string('image-pull-policy')}",
            ),
            *(
                (not IMAGE.fullmatch(one), f"invalid image name {quote(one)} for container {quote(name)}: {_FORMAT}")
                for name, one in self._images.items()
            ),
            (
                flags.get_string("target") and copy,
                "--target is incompatible with --copy-to. Use --share-processes instead.",
            ),
        ]
        for problem, text in problems:
            if problem:
                raise CommandError(text)
        if (target := flags.get_string("target")) and not flags.get_bool("quiet"):
            self._factory.out.write(
                f'Targeting container "{target}". If you don\'t see processes from this container it may be because the '
                "container runtime doesn't support this feature.\n"
            )
        if flags.get_bool("tty") and not flags.get_bool("stdin"):
            raise CommandError("-i/--stdin is required for containers with -t/--tty=true")
        if any(self._custom.get(field) for field in _FIXED):
            raise CommandError(
                "name, command, image, lifecycle and volume devices are not modifiable via custom profile"
            )
        if flags.get_string("profile") == "legacy":
            self._factory.err.write(_LEGACY)

    async def node(self, info: Info) -> tuple[Object, str]:
        """A pod on a node.  Raises StatusError."""
        flags = self._factory.flags
        profile = PROFILES[flags.get_string("profile")]
        container = {"name": flags.get_string("container") or "debugger", **self._container()}
        name = f"node-debugger-{info.name}-{_suffix()}"
        self._tell(f"Creating debugging pod {name} with container {container['name']} on node {info.name}.")
        spec: Object = {"containers": [container], "nodeName": info.name, "restartPolicy": "Never"}
        spec["tolerations"] = [{"operator": "Exists"}]
        if profile.root:
            spec["volumes"] = [{"name": "host-root", "hostPath": {"path": "/"}}]
            container["volumeMounts"] = [{"mountPath": "/host", "name": "host-root"}]
        if profile.namespaces:
            spec.update({"hostNetwork": True, "hostPID": True, "hostIPC": True})
        if not profile.traced:
            _secure(container, profile)
        container = spec["containers"][0] = self._customized(container)
        labels = {"app.kubernetes.io/managed-by": "kubectl-debug"}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}
        request = self._factory.client("v1").post().namespace(self._factory.namespace).resource("pods")
        return await request.body(body).do(), str(container["name"])

    async def pod(self, info: Info) -> tuple[Object, str]:
        """A pod with an ephemeral container, or a copy of it.  Raises StatusError and CommandError."""
        if self._factory.flags.get_string("copy-to"):
            return await self._copy(info)
        flags = self._factory.flags
        container = {"name": self._name(info.object or {}), **self._container()}
        if target := flags.get_string("target"):
            container["targetContainerName"] = target
        _secure(container, PROFILES[flags.get_string("profile")])
        self._warn(container, info.object or {})
        container = self._customized(container)
        names = [{"name": one["name"]} for one in (*(dig(info.object, "spec", "ephemeralContainers") or ()), container)]
        patch = {"spec": {"$setElementOrder/ephemeralContainers": names, "ephemeralContainers": [container]}}
        request = info.request(info.client.patch("strategic")).subresource("ephemeralcontainers")
        return await request.body(patch).do(), str(container["name"])

    async def _copy(self, info: Info) -> tuple[Object, str]:
        flags = self._factory.flags
        pod: Object = tree.copy(info.object)
        spec, profile = pod["spec"], PROFILES[flags.get_string("profile")]
        legacy = flags.get_string("profile") == "legacy"
        spec.pop("ephemeralContainers", None)
        if flags.given("share-processes"):
            spec["shareProcessNamespace"] = flags.get_bool("share-processes")
        if not flags.get_bool("same-node"):
            spec.pop("nodeName", None)
        for one in spec["containers"]:
            one["image"] = self._images.get(one["name"], self._images.get("*", one["image"]))
        name = flags.get_string("container")
        container = next((one for one in spec["containers"] if one["name"] == name), None)
        changed = container is not None or bool(flags.get_string("image"))
        if changed:
            if container is None:
                container = {"name": name or self._name(pod), "terminationMessagePolicy": "File"}
                spec["containers"].append(container)
            self._change(container)
            _secure(container, profile)
            self._warn(container, pod)
            spec["containers"][spec["containers"].index(container)] = self._customized(container)
        elif not self._images:
            raise CommandError("you must specify image when creating new container")
        metadata: Object = {"name": flags.get_string("copy-to"), "namespace": info.namespace}
        for key in ("labels", "annotations"):
            kept = not changed or (key == "annotations" if legacy else flags.get_bool(f"keep-{key}"))
            metadata[key] = (dig(pod, "metadata", key) or {}) if kept else {}
        if changed and not legacy:
            self._strip(spec)
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        request = self._factory.client("v1").post().namespace(info.namespace).resource("pods")
        made: Object = await request.body(body).do()
        if flags.get_bool("replace"):
            await info.delete({"gracePeriodSeconds": 0})
        return made, str(container["name"]) if changed and container is not None else ""

    def _strip(self, spec: Object) -> None:
        """Removes fields that could end or change the copy, unless flags keep them."""
        flags = self._factory.flags
        for one in spec["containers"]:
            for probe in ("liveness", "readiness", "startup"):
                if not flags.get_bool(f"keep-{probe}"):
                    one.pop(f"{probe}Probe", None)
        if not flags.get_bool("keep-init-containers"):
            spec.pop("initContainers", None)
        spec.setdefault("shareProcessNamespace", True)

    def _container(self) -> Object:
        """The fields of a new container, without its name."""
        container: Object = {"terminationMessagePolicy": "File"}
        self._change(container)
        return container

    def _change(self, container: Object) -> None:
        flags = self._factory.flags
        if self._command and flags.get_bool("arguments-only"):
            container["args"] = self._command
        elif self._command:
            container["command"] = self._command
            container.pop("args", None)
        given = (
            ("env", self._environment),
            ("image", flags.get_string("image")),
            ("imagePullPolicy", flags.get_string("image-pull-policy")),
        )
        container.update({key: value for key, value in given if value})
        container.update({"stdin": flags.get_bool("stdin"), "tty": flags.get_bool("tty")})

    def _customized(self, container: Object) -> Object:
        """With the fields of ``--custom``.  Raises CommandError."""
        if not self._custom:
            return container
        from kapi.kubectl.local_patch import patched

        def pod(one: Object) -> Object:
            return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [one]}}

        custom = {**self._custom, "name": container["name"]}
        found: Object = patched(pod(container), orjson.dumps(pod(custom)), "strategic").tree["spec"]["containers"][0]
        return found

    def _name(self, pod: Object) -> str:
        """The name of ``--container``, or a new one."""
        if name := self._factory.flags.get_string("container"):
            return name
        keys = ("containers", "initContainers", "ephemeralContainers")
        taken = {one["name"] for key in keys for one in dig(pod, "spec", key) or ()}
        while (name := f"debugger-{_suffix()}") in taken:
            pass
        self._tell(f"Defaulting debug container name to {name}.")
        return name

    def _warn(self, container: Object, pod: Object) -> None:
        """Warns that a user other than root cannot use the profile's capabilities."""
        security = container.get("securityContext") or {}
        powers = security.get("privileged") or dig(security, "capabilities", "add")
        if dig(pod, "spec", "securityContext", "runAsUser") and security.get("runAsUser") != 0 and powers:
            self._factory.err.write(_NOT_ROOT)

    def _tell(self, text: str) -> None:
        if not self._factory.flags.get_bool("quiet"):
            self._factory.out.write(f"{text}\n")


def _custom(path: str) -> Object:
    """A container's fields in a file, as its type has them; none without a path.  Raises CommandError."""
    if not path:
        return {}
    from kapi.codecs import yaml_reading
    from kapi.codecs.json_reading import kind_of
    from kapi.kubectl.local_patch import decoded

    try:
        with open(path, "rb") as file:
            container, _ = yaml_reading.loads(file.read())
    except OSError as error:
        what = f"open {path}: {str(error.strerror).lower()}"
        raise CommandError(f"must pass a container spec json file for custom profile: {what}") from None
    except ValueError as error:
        raise CommandError(f"{path} {_NO_SPEC}: error converting YAML to JSON: {error}") from None
    if container is None:
        return {}
    if not isinstance(container, dict):
        what = f"json: cannot unmarshal {kind_of(container)} into Go value of type v1.Container"
        raise CommandError(f"{path} {_NO_SPEC}: error unmarshaling JSON: while decoding JSON: {what}")
    pod = decoded({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}})
    found: Object = pod["spec"]["containers"][0]
    return found


def _suffix() -> str:
    return "".join(random.choices(_LETTERS, k=5))


def _secure(container: Object, profile: Profile) -> None:
    """Gives a container the security context of a profile."""
    if profile.security is None or profile.security is _RESTRICTED:
        container.pop("securityContext", None)
    security: Object = {**(container.get("securityContext") or {}), **tree.copy(profile.security or {})}
    if profile.added:
        capabilities = dict(security.get("capabilities") or {})
        security["capabilities"] = {**capabilities, "add": [*(capabilities.get("add") or ()), *profile.added]}
    if security:
        container["securityContext"] = security
