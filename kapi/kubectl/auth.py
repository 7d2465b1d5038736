"""``kapi auth can-i``, ``whoami`` and ``reconcile``, which adds rules and subjects of manifests to roles and bindings.

Upstream: kubectl ``cmd/auth``, component-helpers ``auth/rbac``.
"""

from __future__ import annotations

from typing import NamedTuple

from kapi.client.discovery import APIResource
from kapi.client.errors import ClientError
from kapi.kubectl.builder import Builder
from kapi.kubectl.command import Command, Help
from kapi.kubectl.describers.access import RULE_COLUMNS, Rule, compact, rule_cells, single_rules
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import FILENAME, PRINT, Flag, shared
from kapi.kubectl.info import Info
from kapi.kubectl.messages import CommandError, raise_errors
from kapi.kubectl.print_flags import printer_for
from kapi.kubectl.printers.tabwriter import TabWriter
from kapi.kubectl.writing import dry_run_strategy
from kapi.machinery.golang import value_text
from kapi.machinery.status import AlreadyExists, Forbidden, NotFound
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
        factory.check_config()
        return await _list(factory)
    if len(flags.arguments) != 2:
        raise CommandError(
            "you must specify two arguments: verb resource or verb resource/resourceName.\n"
            f"See '{program} auth can-i -h' for help and examples."
        )
    factory.check_config()
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
    except ClientError:
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
    factory.check_config()
    printer = printer_for(flags, typed=True) if flags.get_string("output") else None
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


_GROUP = "rbac.authorization.k8s.io"
_ROLES, _BINDINGS = ("Role", "ClusterRole"), ("RoleBinding", "ClusterRoleBinding")
_AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_RULE = ("Verbs", "APIGroups", "Resources", "ResourceNames", "NonResourceURLs")
_SUBJECT = (("Kind", "kind"), ("APIGroup", "apiGroup"), ("Name", "name"), ("Namespace", "namespace"))


class Outcome(NamedTuple):
    """The desired object, its ``operation`` ("", "create", "update" or "recreate"), and the missing and superfluous parts."""

    obj: Object
    operation: str
    missing: list[Object]
    extra: list[Object]


async def reconcile(factory: Factory, program: str) -> int:
    flags = factory.flags
    if not flags.get_list("filename"):
        raise CommandError("must specify one of -f and -k")
    if flags.arguments:
        raise CommandError("no arguments are allowed")
    try:
        dry_run = dry_run_strategy(flags.get_string("dry-run"))
    except CommandError as error:
        raise CommandError(f"error accessing --dry-run flag for command reconcile: {error}") from None
    if dry_run == "server":
        raise CommandError("--dry-run=server for command reconcile is not supported yet")
    from kapi.kubectl.local_patch import decoded

    printer = printer_for(flags, "reconciled" + (" (dry run)" if dry_run == "client" else ""), typed=True)
    builder = Builder(factory).namespace(factory.namespace, enforce=bool(flags.get_string("namespace")))
    builder.filenames(flags.get_list("filename"), flags.get_bool("recursive")).flatten().known().local()
    result = await builder.do()
    async for info in result.visit():
        group, version, _, kind = info.mapping[:4]
        if group != _GROUP or kind not in (*_ROLES, *_BINDINGS):
            continue
        with result.caught():
            if version != "v1":
                raise CommandError(f"only {_GROUP}/v1 is supported: not *{version}.{kind}")
            mapping = APIResource(group, version, f"{kind.lower()}s", kind, namespaced=bool(info.namespace))
            client = factory.client(mapping.group_version)
            known = Info(client, mapping, info.namespace, info.name, obj=info.object)
            outcome = await _reconcile(factory, known, write=dry_run == "none")
            factory.out.write(printer.print(decoded(outcome.obj)))
            _tell(factory, outcome, rules=kind in _ROLES)
    raise_errors(result.errors)
    return 0


async def _reconcile(factory: Factory, info: Info, *, write: bool) -> Outcome:
    """Writes the object unless it opts out.  Raises StatusError."""
    wanted = info.object or {}
    rules, key = info.mapping.kind in _ROLES, "rules" if info.mapping.kind in _ROLES else "subjects"
    remove = factory.flags.get_bool("remove-extra-permissions" if rules else "remove-extra-subjects")
    try:
        current: Object = await info.request(info.client.get()).do()
    except NotFound:
        outcome = Outcome(wanted, "create", wanted.get(key) or [], [])
        if write:
            await _ensure_namespace(factory, info)
            await info.create()
            outcome = outcome._replace(obj=info.object or {})
        return outcome
    outcome = (_role if rules else _binding)(current, wanted, remove)
    if not outcome.operation or not write or _protected(current):
        return outcome
    if outcome.operation == "recreate":
        await info.delete({"preconditions": {"uid": current["metadata"]["uid"]}})
        info.object = outcome.obj
        await info.create()
        return outcome._replace(obj=info.object or {})
    done: Object = await info.request(info.client.put()).body(outcome.obj).do()
    return outcome._replace(obj=done)


async def _ensure_namespace(factory: Factory, info: Info) -> None:
    if not info.mapping.kind.startswith("Cluster"):
        if not info.namespace:  # that of the command line does not count, as with kubectl
            raise CommandError("resource name may not be empty")
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": info.namespace}}
        try:
            await factory.client("v1").post().resource("namespaces").body(body).do()
        except AlreadyExists:
            return


def _protected(obj: Object) -> bool:
    return (dig(obj, "metadata", "annotations") or {}).get(_AUTOUPDATE) == "false"


def _merged(current: Object, wanted: Object) -> tuple[Object, bool]:
    """The current object with the labels and annotations of the wanted one, and whether they changed."""
    metadata = dict(current["metadata"])
    for key in ("labels", "annotations"):
        both = {**(dig(wanted, "metadata", key) or {}), **(metadata.get(key) or {})}
        if both != (metadata.get(key) or {}):
            metadata[key] = both
    return {**current, "metadata": metadata}, metadata != current["metadata"]


def _role(current: Object, wanted: Object, remove: bool) -> Outcome:
    obj, changed = _merged(current, wanted)
    have, want = current.get("rules") or [], wanted.get("rules") or []
    missing, extra = _uncovered(have, want), _uncovered(want, have)
    if remove and (missing or extra):
        obj, changed = {**obj, "rules": want}, True
    elif missing:
        obj, changed = {**obj, "rules": [*have, *missing]}, True
    return Outcome(obj, "update" if changed else "", missing, extra)


def _binding(current: Object, wanted: Object, remove: bool) -> Outcome:
    have, want = current.get("subjects") or [], wanted.get("subjects") or []
    if current["roleRef"] != _role_ref(wanted):
        return Outcome(wanted, "recreate", [], [])
    obj, changed = _merged(current, wanted)
    identities = [_subject(one) for one in have]
    missing = [one for one in want if _subject(one) not in identities]
    wanted_identities = [_subject(one) for one in want]
    extra = [one for one in have if _subject(one) not in wanted_identities]
    if remove and (missing or extra):
        obj, changed = {**obj, "subjects": want}, True
    elif missing:
        obj, changed = {**obj, "subjects": [*have, *missing]}, True
    return Outcome(obj, "update" if changed else "", missing, extra)


def _role_ref(obj: Object) -> Object:
    return {"apiGroup": _GROUP, **(obj.get("roleRef") or {})}


def _subject(one: Object) -> tuple[str, ...]:
    group = one.get("apiGroup", "" if one.get("kind") == "ServiceAccount" else _GROUP)
    return one.get("kind", ""), group, one.get("name", ""), one.get("namespace", "")


def _uncovered(owned: list[Object], wanted: list[Object]) -> list[Object]:
    """The permissions of the wanted rules that the owned rules do not have, a rule for each verb, group, resource and name."""
    missing = [rule for one in wanted for rule in single_rules(one) if not any(_covers(has, rule) for has in owned)]
    keys = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
    return [{key: list(values) for key, values in zip(keys, rule, strict=True) if values} for rule in missing]


def _covers(owner: Object, rule: Rule) -> bool:
    verbs, groups, resources, names, urls = rule

    def has(key: str, values: tuple[str, ...]) -> bool:
        found = owner.get(key) or []
        return "*" in found or all(value in found for value in values)

    if not has("verbs", verbs):
        return False
    if urls:
        patterns = owner.get("nonResourceURLs") or []
        return all(
            any(one == url or one.endswith("*") and url.startswith(one[:-1]) for one in patterns) for url in urls
        )
    own_names = owner.get("resourceNames") or []
    below = tuple(f"*/{one.partition('/')[2]}" for one in resources if "/" in one)
    return (
        has("apiGroups", groups)
        and (has("resources", resources) or bool(below) and has("resources", below))
        and (not own_names or bool(names) and all(name in own_names for name in names))
    )


def _tell(factory: Factory, outcome: Outcome, *, rules: bool) -> None:
    """Prints the missing parts on the error stream."""
    if not outcome.operation:
        return
    caveat = f", but object opted out ({_AUTOUPDATE}: false)" if _protected(outcome.obj) else ""
    lines = [f"\treconciliation required {outcome.operation}{caveat}"]
    what, flag = ("rules", "remove-extra-permissions") if rules else ("subjects", "remove-extra-subjects")
    parts = [(f"missing {what} added", outcome.missing)]
    parts += [(f"extra {what} removed", outcome.extra)] if factory.flags.get_bool(flag) else []
    for title, found in parts:
        if found:
            lines += [f"\t{title}:", *(f"\t\t{_rule_text(one) if rules else _subject_text(one)}" for one in found)]
    factory.err.write("\n".join(lines) + "\n")


def _rule_text(rule: Object) -> str:
    fields = (
        (name, rule.get(name[:1].lower() + name[1:] if name != "APIGroups" else "apiGroups") or []) for name in _RULE
    )
    return "{" + " ".join(f"{name}:{value_text(values)}" for name, values in fields) + "}"


def _subject_text(subject: Object) -> str:
    default = "" if subject.get("kind") == "ServiceAccount" else _GROUP
    return (
        "{"
        + " ".join(f"{name}:{subject.get(key, default if key == 'apiGroup' else '')}" for name, key in _SUBJECT)
        + "}"
    )


HELP = Help("SUBCOMMAND", "Answers questions about rights, and brings RBAC rules in line with files.")
SUBCOMMANDS = (
    Command(
        "can-i", "Ask whether one may do something", _can_i,
        Help(
            "VERB (TYPE | TYPE/NAME | URL)", "",
            ("May I create pods?", "auth can-i create pods"),
            ("What may another user do?", "auth can-i --list --as=jane"),
        ),
        *shared("all-namespaces quiet subresource no-headers"),
        Flag("list", "bool", help="List all that is allowed in the namespace."),
    ),
    Command("whoami", "Ask who one is for the server", _whoami, Help("", "", ("Who am I?", "auth whoami")), *PRINT),
    Command(
        "reconcile", "Bring RBAC rules in line with files", reconcile,
        Help("-f FILENAME", "", ("Give the rights that a file says", "auth reconcile -f rbac.yaml")),
        *FILENAME,
        *PRINT,
        *shared("dry-run"),
        Flag("remove-extra-permissions", "bool", help="Take away rules that the file does not have."),
        Flag("remove-extra-subjects", "bool", help="Take away subjects that the file does not have."),
    ),
)  # fmt: skip
