"""``kapi logs`` (upstream: kubectl ``cmd/logs``)."""

from __future__ import annotations

import math

from twisted.internet.defer import Deferred, FirstError, gatherResults
from twisted.internet.task import deferLater

from kapi.client.errors import ClientError, StatusError
from kapi.kubectl.builder import Builder
from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import Flag, like, shared
from kapi.kubectl.info import Info
from kapi.kubectl.messages import CommandError
from kapi.kubectl.pods_of import (
    check_pod_timeout,
    container_of,
    containers_of,
    named_object,
    pods_of,
    selected_pods,
    write_bytes,
)
from kapi.machinery.status import NotFound
from kapi.machinery.time import time
from kapi.machinery.tree import Object

FLAGS = (
    Flag("follow", "bool", short="f", help="Go on with lines as they are written."),
    Flag("previous", "bool", short="p", help="The logs of the container that ran before."),
    *shared("container selector"),
    Flag("all-containers", "bool", help="All containers of the pod."),
    Flag("all-pods", "bool", help="All pods of the given object, each line with the name of its pod."),
    like("pod-running-timeout", default=20.0),
    Flag("timestamps", "bool", help="Begin each line with its time."),
    Flag("since", "duration", default=0.0, help="Only lines newer than this, such as 5s, 2m or 3h."),
    Flag("since-time", help="Only lines after this time (RFC3339)."),
    Flag("tail", "int", default=-1, help="Only the last lines, so many; -1 for all."),
    Flag("limit-bytes", "int", help="The most bytes of logs to print; 0 for all."),
    Flag("prefix", "bool", help="Begin each line with the pod and the container that it comes from."),
    Flag("ignore-errors", "bool", help="Go on with other pods when one fails."),
    Flag("max-log-requests", "int", default=5, help="How many logs are followed at a time."),
    Flag("insecure-skip-tls-verify-backend", "bool", help="Accept any certificate of the kubelet that has the logs."),
)
_RETRY_INTERVAL = 1.0  # seconds
_USAGE = (
    "expected 'logs [-f] [-p] (POD | TYPE/NAME) [-c CONTAINER]'.\n"
    "POD or TYPE/NAME is a required argument for the logs command"
)
HELP = Help(
    "[-f] (POD | TYPE/NAME) [-c CONTAINER]",
    "Prints what a container has written, if its node serves logs.",
    ("Print the logs of a pod", "logs web-0"),
    ("Follow the last 20 lines of one container", "logs web-0 -c app --tail=20 -f"),
    ("Print the logs of all pods with a label", "logs -l app=web --prefix"),
)


async def run(factory: Factory, program: str) -> int:
    flags = factory.flags
    usage = f"{program} logs"
    if len(flags.arguments) > 2 or not flags.arguments and not flags.get_string("selector"):
        raise CommandError(_USAGE, usage=usage)
    if flags.get_string("selector") and flags.arguments:
        raise CommandError("only a selector (-l) or a POD name is allowed", usage=usage)
    container = flags.arguments[1] if len(flags.arguments) == 2 else flags.get_string("container")
    check_pod_timeout(factory)
    if flags.get_string("since-time"):
        try:
            time(flags.get_string("since-time"))
        except ValueError as error:
            raise CommandError(str(error)) from None
    info = None
    if not flags.get_string("selector"):
        info = await _named(factory, program)
    elif not (pods := await selected_pods(factory, flags.get_string("selector"))):
        factory.err.write(f"No resources found in {factory.namespace} namespace.\n")
    options = _options(factory, container)
    if info is not None:
        pods = await _pods_of(factory, info)
    wanted = [(pod, name) for pod in pods for name in _containers(factory, pod, container)]
    if flags.get_bool("follow") and len(wanted) > 1:
        if len(wanted) > flags.get_int("max-log-requests"):
            raise CommandError(
                f"you are attempting to follow {len(wanted)} log streams, but maximum allowed concurrency is "
                f"{flags['max-log-requests']}, use --max-log-requests to increase the limit"
            )
        all_of_them = [Deferred.fromCoroutine(_consume(factory, pod, name, options)) for pod, name in wanted]
        try:
            await gatherResults(all_of_them, consumeErrors=True)
        except FirstError as first:
            first.subFailure.raiseException()
        return 0
    for pod, name in wanted:
        await _consume(factory, pod, name, options)
    return 0


def _options(factory: Factory, container: str) -> Object:
    """The query parameters of the request.  Raises CommandError."""
    flags = factory.flags
    if flags.get_duration("since") and flags.get_string("since-time"):
        raise CommandError("at most one of `sinceTime` or `sinceSeconds` may be specified")
    if flags.get_bool("all-containers") and container:
        raise CommandError(f"--all-containers=true should not be specified with container name {container}")
    if flags.given("container") and len(flags.arguments) == 2:
        raise CommandError("only one of -c or an inline [CONTAINER] arg is allowed")
    if flags.get_int("limit-bytes") < 0:
        raise CommandError("--limit-bytes must be greater than 0")
    if flags.get_duration("since") < 0:
        raise CommandError("--since must be greater than 0")
    if flags.get_int("tail") < -1:
        raise CommandError("--tail must be greater than or equal to -1")
    tail = flags.get_int("tail")
    if flags.get_string("selector") and not flags.given("tail"):
        tail = 10
    return {
        "follow": flags.get_bool("follow"),
        "previous": flags.get_bool("previous"),
        "timestamps": flags.get_bool("timestamps"),
        "sinceSeconds": math.ceil(flags.get_duration("since")) or None,
        "sinceTime": flags.get_string("since-time"),
        "tailLines": tail if tail >= 0 else None,
        "limitBytes": flags.get_int("limit-bytes") or None,
        "insecureSkipTLSVerifyBackend": flags.get_bool("insecure-skip-tls-verify-backend"),
    }


async def _named(factory: Factory, program: str) -> Info:
    if not factory.flags.arguments[0]:
        await Builder(factory, program).do()  # as kubectl: an empty name is none
    try:
        return await named_object(factory, program, factory.flags.arguments[0])
    except NotFound as error:
        raise CommandError(
            f'error from server (NotFound): {error.message} in namespace "{factory.namespace}"'
        ) from None


async def _pods_of(factory: Factory, info: Info) -> list[Object]:
    found = await pods_of(factory, info, "get the logs from")
    if factory.flags.get_bool("all-pods"):
        return found
    if len(found) > 1:
        factory.err.write(f"Found {len(found)} pods, using pod/{found[0]['metadata']['name']}\n")
    return found[:1]


def _containers(factory: Factory, pod: Object, name: str) -> list[str]:
    if factory.flags.get_bool("all-containers"):
        return [one for one, _ in containers_of(pod)]
    return [container_of(factory, pod, name, quiet=factory.flags.get_bool("all-pods"))]


def _has_prefix(factory: Factory) -> bool:
    """Whether each line begins with its Pod and container."""
    return bool(factory.flags.get_bool("prefix") or factory.flags.get_bool("all-pods"))


async def _consume(factory: Factory, pod: Object, container: str, options: Object) -> None:
    """Prints a log; a log that is followed and that the server refuses is asked for again each second.

    Raises StatusError, ClientError, and CommandError when ``--pod-running-timeout`` is over.
    """
    is_followed = factory.flags.get_bool("follow")
    end = factory.reactor.seconds() + factory.flags.get_duration("pod-running-timeout")
    while True:
        try:
            return await _print(factory, pod, container, options)
        except (ClientError, StatusError) as error:
            text = error.message if isinstance(error, StatusError) else str(error)
            if factory.flags.get_bool("ignore-errors"):
                factory.out.write(f"error: {text}\n")
                return None
            if is_followed:
                factory.err.write(f"{text}\n")
            if not is_followed or not isinstance(error, StatusError):
                raise
        left = end - factory.reactor.seconds()
        await deferLater(factory.reactor, min(_RETRY_INTERVAL, max(left, 0.0)))
        if left <= _RETRY_INTERVAL:
            raise CommandError("context deadline exceeded")


async def _print(factory: Factory, pod: Object, container: str, options: Object) -> None:
    """Raises StatusError and ClientError."""
    metadata = pod["metadata"]
    request = factory.client("v1").get().namespace(metadata["namespace"]).resource("pods").name(metadata["name"])
    request.subresource("log").params({"container": container, **options})
    prefix = f"[pod/{metadata['name']}/{container}] ".encode() if _has_prefix(factory) else b""
    stream = await request.stream()
    rest = b""
    try:
        while data := await stream.read():
            if prefix:
                *lines, rest = (rest + data).split(b"\n")
                data = b"".join(prefix + line + b"\n" for line in lines)
            write_bytes(factory.out, data)
        if rest:
            write_bytes(factory.out, prefix + rest)
    finally:
        stream.close()
