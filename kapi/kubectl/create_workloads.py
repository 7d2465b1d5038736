"""``kapi create`` for workloads, namespaces, quotas and the like (upstream: kubectl ``cmd/create``)."""

from __future__ import annotations

import random
import re

from kapi.kubectl.builder import Builder
from kapi.kubectl.command import Command, Help
from kapi.kubectl.creating import CREATE, create, metadata, one_name
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import Flag
from kapi.kubectl.messages import CommandError
from kapi.machinery.quantity import QuantityError, canonical
from kapi.machinery.selectors import SelectorError, parse_labels
from kapi.machinery.tree import Object

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"  # upstream's letters for random names
_AMOUNT = re.compile(r"[0-9]+%?")


def int_or_string(text: str) -> int | str:
    """Parses like ``intstr.Parse``."""
    return int(text) if re.fullmatch(r"[+-]?\d+", text) and -(1 << 31) <= int(text) < 1 << 31 else text


def _container(name: str, image: str, command: list[str]) -> Object:
    found: Object = {"name": name, "image": image}
    return found | ({"command": command} if command else {}) | {"resources": {}}


def _container_name(image: str) -> str:
    """A name from the image's name, which is changed into a unique DNS label if necessary."""
    name = image.rpartition("/")[2].partition(":")[0].partition("@")[0]
    if "_" in name or "." in name:
        name = f"{name.replace('_', '-').replace('.', '-')}-{''.join(random.choices(_SUFFIX, k=5))}"
    return name


async def _deployment(factory: Factory, program: str) -> int:
    flags = factory.flags
    name, command = _name_and_command(factory, program)
    images = flags.get_list("image")
    if len(images) > 1 and command:
        raise CommandError("cannot specify multiple --image options and command")
    containers = [_container(_container_name(image), image, command) for image in images]
    if flags.get_int("port") >= 0 and containers:
        first = containers[0]
        containers[0] = {
            key: value
            for key, value in (*first.items(), ("ports", [{"containerPort": flags.get_int("port")}]))
            if key != "resources"
        } | {"resources": {}}
    labels = {"app": name}
    obj: Object = {
        "kind": "Deployment",
        "apiVersion": "apps/v1",
        "metadata": metadata(factory, name, labels=labels),
        "spec": {
            "replicas": flags.get_int("replicas"),
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
            "strategy": {},
        },
        "status": {},
    }
    return await create(factory, obj, "deployments", "failed to create deployment:")


def _name_and_command(factory: Factory, program: str) -> tuple[str, list[str]]:
    """The name, and the container's command after it.  Raises CommandError."""
    return one_name(factory, program, required=False), factory.flags.arguments[1:]


async def _job(factory: Factory, program: str) -> int:
    flags = factory.flags
    name, command = _name_and_command(factory, program)
    image, source = flags.get_string("image"), flags.get_string("from")
    if bool(image) == bool(source):
        raise CommandError("either --image or --from must be specified")
    if command and source:
        raise CommandError("cannot specify --from and command")
    obj: Object = {"kind": "Job", "apiVersion": "batch/v1", "metadata": metadata(factory, name)}
    if image:
        spec: Object = {"containers": [_container(name, image, command)], "restartPolicy": "Never"}
        obj["spec"] = {"template": {"metadata": {}, "spec": spec}}
    else:
        await _from_cron_job(factory, program, source, obj)
    return await create(factory, obj | {"status": {}}, "jobs", "failed to create job:")


async def _from_cron_job(factory: Factory, program: str, source: str, job: Object) -> None:
    builder = Builder(factory, program).namespace(factory.namespace).flatten().latest().known()
    result = await builder.resource_type_or_name([source], allow_empty_selector=False).do()
    infos = await result.all_or_first_error()
    if len(infos) != 1:
        raise CommandError("from must be an existing cronjob")
    cron = infos[0].object or {}
    if cron.get("kind") != "CronJob":
        raise CommandError(f"unknown object type *{infos[0].mapping.version}.{cron.get('kind')}")
    template = cron["spec"]["jobTemplate"]
    given = template.get("metadata") or {}
    if given.get("labels"):
        job["metadata"]["labels"] = given["labels"]
    annotations = {"cronjob.kubernetes.io/instantiate": "manual", **(given.get("annotations") or {})}
    job["metadata"]["annotations"] = dict(sorted(annotations.items()))
    job["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "name": cron["metadata"]["name"],
            "uid": cron["metadata"]["uid"],
            "controller": True,
        }
    ]
    from kapi.kubectl.local_patch import decoded

    job["spec"] = decoded({**job, "spec": template.get("spec") or {}})["spec"]  # printed in the order of its type


async def _cron_job(factory: Factory, program: str) -> int:
    flags = factory.flags
    name, command = _name_and_command(factory, program)
    spec: Object = {"containers": [_container(name, flags.get_string("image"), command)]}
    spec["restartPolicy"] = flags.get_string("restart") or "OnFailure"
    obj: Object = {
        "kind": "CronJob",
        "apiVersion": "batch/v1",
        "metadata": metadata(factory, name),
        "spec": {
            "schedule": flags.get_string("schedule"),
            "jobTemplate": {"metadata": {"name": name}, "spec": {"template": {"metadata": {}, "spec": spec}}},
        },
        "status": {},
    }
    return await create(factory, obj, "cronjobs", "failed to create cronjob:")


async def _namespace(factory: Factory, program: str) -> int:
    found = metadata(factory, one_name(factory, program), namespaced=False)
    obj: Object = {"kind": "Namespace", "apiVersion": "v1", "metadata": found, "spec": {}, "status": {}}
    return await create(factory, obj, "namespaces", namespaced=False)


async def _disruption_budget(factory: Factory, program: str) -> int:
    flags = factory.flags
    name, selector = one_name(factory, program), flags.get_string("selector")
    least, most = flags.get_string("min-available"), flags.get_string("max-unavailable")
    if not selector:
        raise CommandError("a selector must be specified")
    if not least and not most:
        raise CommandError("one of min-available or max-unavailable must be specified")
    if least and most:
        raise CommandError("min-available and max-unavailable cannot be both specified")
    for value, what in ((least, "min-available"), (most, "max-unavailable")):
        if value and not _AMOUNT.fullmatch(value):
            raise CommandError(f"invalid format specified for {what}")
    spec: Object = {"minAvailable": int_or_string(least)} if least else {}
    spec["selector"] = label_selector(selector)
    spec |= {"maxUnavailable": int_or_string(most)} if most else {}
    status = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
    obj: Object = {"kind": "PodDisruptionBudget", "apiVersion": "policy/v1", "metadata": metadata(factory, name)}
    obj |= {"spec": spec, "status": status}
    return await create(factory, obj, "poddisruptionbudgets", "failed to create poddisruptionbudgets:")


def label_selector(text: str) -> Object:
    """The LabelSelector of a selector's text (upstream: ``metav1.ParseToLabelSelector``).  Raises CommandError."""
    try:
        requirements = parse_labels(text).requirements
    except SelectorError as error:
        raise CommandError(f"couldn't parse the selector string {chr(34)}{text}{chr(34)}: {error}") from None
    labels: dict[str, str] = {}
    expressions: list[Object] = []
    operators = {"in": "In", "notin": "NotIn", "exists": "Exists", "!": "DoesNotExist"}
    for one in requirements:
        values = sorted(one.values)
        if one.operator in ("=", "=="):
            labels[one.key] = values[0]
        elif one.operator not in operators:
            raise CommandError(f'"{one.operator}" is not a valid label selector operator')
        else:
            expression: Object = {"key": one.key, "operator": operators[one.operator]}
            expressions.append(expression | ({"values": values} if values else {}))
    found: Object = {"matchLabels": dict(sorted(labels.items()))} if labels else {}
    return found | ({"matchExpressions": expressions} if expressions else {})


async def _priority_class(factory: Factory, program: str) -> int:
    flags = factory.flags
    obj: Object = {
        "kind": "PriorityClass",
        "apiVersion": "scheduling.k8s.io/v1",
        "metadata": metadata(factory, one_name(factory, program, required=False), namespaced=False),
        "value": flags.get_int("value"),
    }
    obj |= {"globalDefault": True} if flags.get_bool("global-default") else {}
    obj |= {"description": flags.get_string("description")} if flags.get_string("description") else {}
    obj["preemptionPolicy"] = flags.get_string("preemption-policy")
    return await create(factory, obj, "priorityclasses", "failed to create priorityclass:", namespaced=False)


def quantities(text: str, invalid: str = "Invalid argument syntax") -> dict[str, str]:
    """``cpu=1,memory=2Gi`` as a ResourceList.  Raises CommandError; ``invalid`` begins its message for a part without one "="."""
    found = {}
    for part in text.split(",") if text else ():
        name, *values = part.split("=")
        if len(values) != 1:
            raise CommandError(f"{invalid} {part}, expected <resource>=<value>")
        try:
            found[name] = canonical(values[0])
        except QuantityError as error:
            raise CommandError(str(error)) from None
    return dict(sorted(found.items()))


async def _quota(factory: Factory, program: str) -> int:
    name = one_name(factory, program)
    hard, scopes = quantities(factory.flags.get_string("hard")), factory.flags.get_string("scopes")
    if scopes and "" in scopes.split(","):
        raise CommandError('invalid resource quota scope ""')
    spec: Object = {"hard": hard} if hard else {}
    spec |= {"scopes": scopes.split(",")} if scopes else {}
    obj: Object = {"kind": "ResourceQuota", "apiVersion": "v1", "metadata": metadata(factory, name)}
    return await create(factory, obj | {"spec": spec, "status": {}}, "resourcequotas", "failed to create quota:")


_IMAGE = Flag("image", required=True, help="The image of the container.")
COMMANDS = (
    Command(
        "deployment", "Create a deployment", _deployment,
        Help(
            "NAME --image=IMAGE -- [COMMAND] [ARGUMENT ...]", "",
            ("Run three pods of an image", "create deployment web --image=nginx --replicas=3"),
            ("Run a command in it", "create deployment clock --image=busybox -- date"),
        ),
        *CREATE,
        Flag("image", "list", required=True, help="The image; several make several containers."),
        Flag("port", "int32", default=-1, help="The port that the container listens on."),
        Flag("replicas", "int32", short="r", default=1, help="How many pods there are to be."),
        aliases=("deploy",),
    ),
    Command(
        "job", "Create a job", _job,
        Help(
            "NAME --image=IMAGE [--from=cronjob/NAME] -- [COMMAND] [ARGUMENT ...]", "",
            ("Run a command once", "create job clock --image=busybox -- date"),
            ("Run a cron job now", "create job now --from=cronjob/clock"),
        ),
        *CREATE,
        Flag("image", help="The image of the container."),
        Flag("from", help="The cron job whose job it is to be: cronjob/NAME."),
    ),
    Command(
        "cronjob", "Create a cron job", _cron_job,
        Help(
            "NAME --image=IMAGE --schedule='0/5 * * * ?' -- [COMMAND] [ARGUMENT ...]", "",
            ("Run a command each minute", "create cronjob clock --image=busybox --schedule='* * * * *' -- date"),
        ),
        *CREATE, _IMAGE,
        Flag("schedule", required=True, help="When it runs, in cron's form."),
        Flag("restart", help="What follows a failure: OnFailure or Never."),
        aliases=("cj",),
    ),
    Command(
        "namespace", "Create a namespace", _namespace,
        Help("NAME", "", ("Create one", "create namespace test")),
        *CREATE, aliases=("ns",),
    ),
    Command(
        "poddisruptionbudget", "Create a pod disruption budget", _disruption_budget,
        Help(
            "NAME --selector=LABELS --min-available=AMOUNT", "",
            ("Keep half of the pods", "create poddisruptionbudget web --selector=app=web --min-available=50%"),
        ),
        *CREATE,
        Flag("min-available", help="How many pods stay, a number or a percentage."),
        Flag("max-unavailable", help="How many pods may go, a number or a percentage."),
        Flag("selector", help="The labels of the pods."),
        aliases=("pdb",),
    ),
    Command(
        "priorityclass", "Create a priority class", _priority_class,
        Help("NAME --value=VALUE", "", ("Create one", "create priorityclass high --value=1000")),
        *CREATE,
        Flag("value", "int32", help="The priority."),
        Flag("global-default", "bool", help="It is the class of pods without one."),
        Flag("description", help="When it is to be used."),
        Flag("preemption-policy", default="PreemptLowerPriority", help="Never, or PreemptLowerPriority."),
        aliases=("pc",),
    ),
    Command(
        "quota", "Create a resource quota", _quota,
        Help(
            "NAME [--hard=RESOURCE=QUANTITY,...] [--scopes=SCOPE,...]", "",
            ("Limit CPU and pods", "create quota small --hard=cpu=1,pods=2"),
        ),
        *CREATE,
        Flag("hard", help="The limits, RESOURCE=QUANTITY, separated by commas."),
        Flag("scopes", help="The scopes that objects must have, separated by commas."),
        aliases=("resourcequota",),
    ),
)  # fmt: skip
