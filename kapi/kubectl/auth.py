"""``kapi auth can-i``, ``whoami`` and ``reconcile`` (upstream: kubectl ``cmd/auth``)."""

from __future__ import annotations

from kapi.client.errors import NoMatch
from kapi.kubectl.command import Command, Help
from kapi.kubectl.describers.access import RULE_COLUMNS, compact, rule_cells
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import FILENAME, PRINT, Flag
from kapi.kubectl.messages import CommandError
from kapi.kubectl.print_flags import printer_for
from kapi.kubectl.printers.tabwriter import TabWriter
from kapi.kubectl.reconcile import reconcile
from kapi.machinery.golang import value_text
from kapi.machinery.status import Forbidden, NotFound
from kapi.machinery.tree import Object, dig

_VERBS = frozenset(
    "get list watch create update patch delete deletecollection use bind impersonate * approve sign escalate attest".split()
)
_URL_VERBS = frozenset("get put post head options delete patch *".split())
_NOT_DISCOVERED = ("users", "groups")


async def _review(
    factory: Factory, kind: str, resource: str, spec: Object, group: str = "authorization.k8s.io"
) -> Object:
    """The status of a review by the server."""
    body = {"apiVersion": f"{group}/v1", "kind": kind, **({"spec": spec} if spec else {})}
    answer: Object = await factory.client(f"{group}/v1").post().resource(resource).body(body).do()
    return answer


def _warn(factory: Factory, text: str) -> None:
    factory.err.write(f"Warning: {text}\n")


async def _list(factory: Factory) -> int:
    flags = factory.flags
    if flags.arguments:
        raise CommandError("list option must be specified with no arguments")
    if flags.get_bool("quiet") or flags.get_bool("all-namespaces") or flags.get_string("subresource"):
        raise CommandError("list option can't be specified with neither quiet, all-namespaces nor subresource options")
    spec = {"namespace": factory.namespace}
    status = (await _review(factory, "SelfSubjectRulesReview", "selfsubjectrulesreviews", spec))["status"]
    if status.get("incomplete"):
        _warn(factory, f"the list may be incomplete: {status.get('evaluationError', '')}")
    writer = TabWriter()
    if not flags.get_bool("no-headers"):
        writer.row(RULE_COLUMNS)
    for rule in compact([*(status.get("resourceRules") or ()), *(status.get("nonResourceRules") or ())]):
        writer.text(rule_cells(rule))
    factory.out.write(writer.flush())
    return 0


async def _can_i(factory: Factory, program: str) -> int:
    flags = factory.flags
    if flags.get_bool("list"):
        return await _list(factory)
    if len(flags.arguments) != 2:
        raise CommandError(
            "you must specify two arguments: verb resource or verb resource/resourceName.\n"
            f"See '{program} auth can-i -h' for help and examples."
        )
    verb, target = flags.arguments
    if target.startswith("/"):
        spec = {"nonResourceAttributes": {"verb": verb, "path": target}}
        if flags.get_string("subresource"):
            raise CommandError("--subresource can not be used with NonResourceURL")
    else:
        spec = {"resourceAttributes": await _resource(factory, verb, target)}
    known = _URL_VERBS if target.startswith("/") else _VERBS
    if verb not in known and (target.startswith("/") or dig(spec, "resourceAttributes", "resource")):
        _warn(factory, f"verb '{verb}' is not a known verb\n")
    if flags.get_bool("no-headers"):
        raise CommandError("--no-headers cannot be set without --list specified")
    status = (await _review(factory, "SelfSubjectAccessReview", "selfsubjectaccessreviews", spec))["status"]
    if not flags.get_bool("quiet"):
        reasons = [status.get(key) for key in ("reason", "evaluationError")]
        factory.out.write("yes\n" if status.get("allowed") else " - ".join(["no", *filter(None, reasons)]) + "\n")
    return 0 if status.get("allowed") else 1


async def _resource(factory: Factory, verb: str, target: str) -> Object:
    """The attributes of a request for ``TYPE`` or ``TYPE/NAME``."""
    given, _, name = target.partition("/")
    everywhere = factory.flags.get_bool("all-namespaces")
    attributes = {"verb": verb, "namespace": "" if everywhere else factory.namespace, "name": name}
    attributes["subresource"] = factory.flags.get_string("subresource")
    if given == "*":
        return {**attributes, "resource": "*"}
    try:
        found = await factory.mapper.resource_for(given.lower())
    except NoMatch:
        resource, _, group = given.lower().partition(".")
        if given.lower() not in _NOT_DISCOVERED:
            where = f" in group '{group}'" if group else ""
            _warn(factory, f"the server doesn't have a resource type '{resource}'{where}\n")
        return {**attributes, "resource": given}
    if not everywhere and not found.namespaced:
        where = f" in group '{found.group}'" if found.group else ""
        _warn(factory, f"resource '{found.name}' is not namespace scoped{where}\n")
    return {**attributes, "group": found.group, "resource": found.name}


async def _whoami(factory: Factory, program: str) -> int:
    flags = factory.flags
    with_printer = flags.get_string("output") or flags.get_string("template")
    printer = printer_for(flags, typed=True) if with_printer else None
    try:
        review = await _review(factory, "SelfSubjectReview", "selfsubjectreviews", {}, "authentication.k8s.io")
    except NotFound:
        raise CommandError("the selfsubjectreviews API is not enabled in the cluster") from None
    except Forbidden:
        raise CommandError(
            "the selfsubjectreviews API is not enabled in the cluster or you do not have permission to call it"
        ) from None
    if printer is not None:
        factory.out.write(printer.print(review))
        return 0
    user = dig(review, "status", "userInfo") or {}
    rows = [("Username", user.get("username")), ("UID", user.get("uid")), ("Groups", user.get("groups"))]
    rows += [(f"Extra: {key}", values) for key, values in sorted((user.get("extra") or {}).items())]
    writer = TabWriter()
    writer.row(("ATTRIBUTE", "VALUE"))
    for title, value in rows:
        if value:
            writer.row((title, value_text(value)))
    factory.out.write(writer.flush())
    return 0


HELP = Help("SUBCOMMAND", "Answers questions about rights, and brings RBAC rules in line with files.")
SUBCOMMANDS = (
    Command(
        "can-i", "Ask whether one may do something", _can_i,
        (
            Flag("all-namespaces", "bool", short="A"),
            Flag("quiet", "bool", short="q"),
            Flag("subresource"),
            Flag("list", "bool"),
            Flag("no-headers", "bool"),
        ),
        Help(
            "VERB (TYPE | TYPE/NAME | URL)", "",
            (
                ("May I create pods?", "auth can-i create pods"),
                ("What may another user do?", "auth can-i --list --as=jane"),
            ),
        ),
    ),
    Command(
        "whoami", "Ask who one is for the server", _whoami, PRINT,
        Help("", "", (("Who am I?", "auth whoami"),)),
    ),
    Command(
        "reconcile", "Bring RBAC rules in line with files", reconcile,
        (
            *FILENAME,
            *PRINT,
            Flag("dry-run", no_opt_default="unchanged", default="none"),
            Flag("remove-extra-permissions", "bool"),
            Flag("remove-extra-subjects", "bool"),
        ),
        Help("-f FILENAME", "", (("Give the rights that a file says", "auth reconcile -f rbac.yaml"),)),
    ),
)  # fmt: skip
