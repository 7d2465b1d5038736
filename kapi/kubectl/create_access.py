"""``kapi create`` for roles, their bindings, service accounts and tokens (upstream: kubectl ``cmd/create``)."""

from __future__ import annotations

from typing import NamedTuple

from kapi.client.errors import ConnectionFailed, DeadlineExceeded, NoMatch, StatusError
from kapi.kubectl.command import Command, Help
from kapi.kubectl.creating import CREATE, create, metadata, name_argument, one_name
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import PRINT, Flag
from kapi.kubectl.messages import CommandError
from kapi.kubectl.print_flags import printer_for
from kapi.machinery.tree import Object

_GROUP = "rbac.authorization.k8s.io"
_VERBS = frozenset(
    "* get delete list create update patch watch proxy deletecollection use bind escalate impersonate".split()
)
_URL_VERBS = frozenset("* get put post head options delete patch".split())
_ROLES = ((_GROUP, "roles"), (_GROUP, "clusterroles"))
#: verb -> the only resources for which it is valid
_SPECIAL = {
    "use": (("policy", "podsecuritypolicies"), ("extensions", "podsecuritypolicies")),
    "bind": _ROLES,
    "escalate": _ROLES,
    "impersonate": (("", "users"), ("", "serviceaccounts"), ("", "groups"), ("authentication.k8s.io", "userextras")),
}
_BOUND = {"Node": "v1", "Pod": "v1", "Secret": "v1"}


class _Named(NamedTuple):
    """A resource of ``--resource``: RESOURCE.GROUP/SUBRESOURCE."""

    name: str
    group: str
    subresource: str


def _named(text: str) -> _Named:
    whole, _, subresource = text.partition("/")
    name, _, group = whole.partition(".")
    return _Named(name, group, subresource)


async def _found(factory: Factory, resource: _Named) -> tuple[str, str, Exception | None]:
    """Group and name of the resource on the server; the given ones, with the error, when the server does not have it."""
    try:
        mapping = await factory.mapper.resource_for(f"{resource.name}.{resource.group}".rstrip("."))
    except NoMatch as error:
        return resource.group, resource.name, error
    return mapping.group, mapping.name, None


async def _check(factory: Factory, verbs: list[str], resources: list[_Named]) -> None:
    for resource in resources:
        if not resource.name:
            raise CommandError("resource must be specified if apiGroup/subresource specified")
        if resource.name == "*":
            return
        group, name, problem = await _found(factory, resource)
        for verb in verbs:
            if verb in _SPECIAL:
                if (group, name) not in _SPECIAL[verb]:
                    raise CommandError(f"can not perform '{verb}' on '{name}' in group '{group}'")
                problem = None
        if problem is not None:
            raise CommandError(str(problem), plain=True)


async def _rules(factory: Factory, verbs: list[str], resources: list[_Named], urls: list[str]) -> list[Object]:
    groups: dict[str, dict[str, None]] = {}
    for resource in resources:
        group, name, _ = await _found(factory, resource)
        groups.setdefault(group, {})[f"{name}/{resource.subresource}" if resource.subresource else name] = None
    names = list(dict.fromkeys(factory.flags.get_list("resource-name")))
    rules: list[Object] = []
    for group in sorted(groups):
        rule: Object = {"verbs": verbs, "apiGroups": [group], "resources": list(groups[group])}
        rules.append(rule | ({"resourceNames": names} if names else {}))
    if urls:
        rules.append({"verbs": verbs, "nonResourceURLs": urls})
    return rules


def _verbs_and_resources(factory: Factory) -> tuple[list[str], list[_Named]]:
    verbs = list(dict.fromkeys(factory.flags.get_list("verb")))
    resources: list[_Named] = []
    for text in factory.flags.get_list("resource"):
        if text == "*":
            resources = [*resources, _Named("*", "", "")]
            break
        resources.append(_named(text))
    return ["*"] if "*" in verbs else verbs, resources


def _warn_of_verbs(factory: Factory, verbs: list[str]) -> None:
    for verb in verbs:
        if verb not in _VERBS:
            factory.err.write(f"Warning: '{verb}' is not a standard resource verb\n")


async def _role(factory: Factory, program: str) -> int:
    name = one_name(factory, program)
    verbs, resources = _verbs_and_resources(factory)
    if not verbs:
        raise CommandError("at least one verb must be specified")
    _warn_of_verbs(factory, verbs)
    if not resources:
        raise CommandError("at least one resource must be specified")
    await _check(factory, verbs, resources)
    rules = await _rules(factory, verbs, resources, [])
    obj = {"kind": "Role", "apiVersion": f"{_GROUP}/v1", "metadata": metadata(factory, name), "rules": rules}
    return await create(factory, obj, "roles")


async def _cluster_role(factory: Factory, program: str) -> int:
    flags = factory.flags
    name = one_name(factory, program)
    verbs, resources = _verbs_and_resources(factory)
    urls = list(dict.fromkeys(flags.get_list("non-resource-url")))
    aggregated = dict(pair.split("=", 1) for pair in flags.get_list("aggregation-rule"))
    obj: Object = {
        "kind": "ClusterRole",
        "apiVersion": f"{_GROUP}/v1",
        "metadata": metadata(factory, name, namespaced=False),
        "rules": None,
    }
    if aggregated:
        if urls or verbs or resources or flags.get_list("resource-name"):
            raise CommandError(
                "aggregation rule must be specified without nonResourceURLs, verbs, resources or resourceNames"
            )
        obj["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": dict(sorted(aggregated.items()))}]}
        return await create(factory, obj, "clusterroles", namespaced=False)
    if not verbs:
        raise CommandError("at least one verb must be specified")
    if not resources and not urls:
        raise CommandError("one of resource or nonResourceURL must be specified")
    if resources:
        _warn_of_verbs(factory, verbs)
        await _check(factory, verbs, resources)
    _check_urls(verbs, urls)
    obj["rules"] = await _rules(factory, verbs, resources, urls)
    return await create(factory, obj, "clusterroles", namespaced=False)


def _check_urls(verbs: list[str], urls: list[str]) -> None:
    """Raises CommandError."""
    for verb in verbs if urls else ():
        if verb not in _URL_VERBS:
            raise CommandError(f"invalid verb: '{verb}' for nonResourceURL")
    for url in urls:
        if url != "*" and not url.startswith("/"):
            raise CommandError("nonResourceURL should start with /")
        if url != "*" and "*" in url[:-1]:
            raise CommandError("nonResourceURL only supports wildcard matches when '*' is at the end")


def subjects(factory: Factory) -> list[Object]:
    """The subjects of the flags.  Raises CommandError."""
    flags = factory.flags
    found: list[Object] = [
        {"kind": kind, "apiGroup": _GROUP, "name": name}
        for flag, kind in (("user", "User"), ("group", "Group"))
        for name in flags.get_list(flag)
    ]
    for text in flags.get_list("serviceaccount"):
        namespace, *names = text.split(":")
        if len(names) != 1 or not namespace or not names[0]:
            raise CommandError("serviceaccount must be <namespace>:<name>")
        found.append({"kind": "ServiceAccount", "name": names[0], "namespace": namespace})
    return found


async def _bind(factory: Factory, name: str, kind: str, resource: str, role: tuple[str, str]) -> int:
    namespaced = kind == "RoleBinding"
    obj: Object = {
        "kind": kind,
        "apiVersion": f"{_GROUP}/v1",
        "metadata": metadata(factory, name, namespaced=namespaced),
    }
    if found := subjects(factory):
        obj["subjects"] = found
    obj["roleRef"] = {"apiGroup": _GROUP, "kind": role[0], "name": role[1]}
    return await create(factory, obj, resource, f"failed to create {kind.lower()}:", namespaced=namespaced)


async def _role_binding(factory: Factory, program: str) -> int:
    name = one_name(factory, program)
    role, cluster_role = factory.flags.get_string("role"), factory.flags.get_string("clusterrole")
    if bool(role) == bool(cluster_role):
        raise CommandError("exactly one of clusterrole or role must be specified")
    which = ("Role", role) if role else ("ClusterRole", cluster_role)
    return await _bind(factory, name, "RoleBinding", "rolebindings", which)


async def _cluster_role_binding(factory: Factory, program: str) -> int:
    name = one_name(factory, program, required=False)
    which = ("ClusterRole", factory.flags.get_string("clusterrole"))
    return await _bind(factory, name, "ClusterRoleBinding", "clusterrolebindings", which)


async def _service_account(factory: Factory, program: str) -> int:
    obj = {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": metadata(factory, one_name(factory, program))}
    return await create(factory, obj, "serviceaccounts", "failed to create serviceaccount:")


async def _token(factory: Factory, program: str) -> int:
    flags = factory.flags
    name = name_argument(factory, program)
    factory.check_namespace()
    factory.check_config()
    printer = printer_for(factory.flags, "created", typed=True)
    seconds, audiences = flags.get_duration("duration"), flags.get_list("audience")
    kind, bound = flags.get_string("bound-object-kind"), flags.get_string("bound-object-name")
    uid = flags.get_string("bound-object-uid")
    if not name:
        raise CommandError("service account name is required")
    if seconds < 0:
        raise CommandError("--duration must be greater than or equal to 0")
    if seconds % 1:
        raise CommandError("--duration cannot be expressed in units less than seconds")
    if "" in audiences:
        raise CommandError("--audience must not be an empty string")
    if not kind:
        for given, what in ((bound, "name"), (uid, "uid")):
            if given:
                raise CommandError(f"--bound-object-{what} can only be set if --bound-object-kind is provided")
    elif kind not in _BOUND:
        raise CommandError(f"supported --bound-object-kind values are {', '.join(_BOUND)}")
    elif not bound:
        raise CommandError("--bound-object-name is required if --bound-object-kind is provided")
    spec: Object = {"audiences": audiences or None, "expirationSeconds": int(seconds) or None}
    if kind:
        reference = {"kind": kind, "apiVersion": _BOUND[kind], "name": bound}
        spec["boundObjectRef"] = reference | ({"uid": uid} if uid else {})
    body = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {},
        "spec": spec,
        "status": {},
    }
    request = factory.client("v1").post().namespace(factory.namespace).resource("serviceaccounts")
    try:
        answer = await request.name(name).subresource("token").body(body).do()
    except (StatusError, ConnectionFailed, DeadlineExceeded, ValueError) as error:
        raise CommandError(f"failed to create token: {factory.request_text(error)}") from None
    if flags.get_string("output"):
        factory.out.write(printer.print(answer))
    else:
        factory.out.write(answer["status"]["token"] + ("\n" if factory.out.isatty() else ""))
    return 0


_BINDING = (
    *CREATE,
    Flag("user", "array", help="A user who gets the role; may be repeated."),
    Flag("group", "array", help="A group that gets the role; may be repeated."),
    Flag("serviceaccount", "array", help="A service account that gets the role, NAMESPACE:NAME; may be repeated."),
)
_RULE = (
    *CREATE,
    Flag("verb", "list", help="The verbs that are allowed, separated by commas."),
    Flag("resource", "list", help="The resources that they are allowed on, RESOURCE.GROUP/SUBRESOURCE."),
    Flag("resource-name", "array", help="Only the object of this name; may be repeated."),
)
COMMANDS = (
    Command(
        "role", "Create a role of a namespace", _role,
        Help(
            "NAME --verb=VERB --resource=RESOURCE.GROUP/SUBRESOURCE [--resource-name=NAME]",
            "Creates a role with one rule for each group of the resources.",
            ("Let its holders read pods", "create role reader --verb=get,list,watch --resource=pods"),
        ),
        *_RULE,
    ),
    Command(
        "clusterrole", "Create a cluster role", _cluster_role,
        Help(
            "NAME --verb=VERB --resource=RESOURCE.GROUP [--resource-name=NAME]",
            "Creates a cluster role, from rules or from other cluster roles by their labels.",
            ("Let its holders read nodes", "create clusterrole nodes --verb=get,list --resource=nodes"),
            ("Let its holders read metrics", "create clusterrole metrics --verb=get --non-resource-url=/metrics"),
            ("Collect cluster roles by label", "create clusterrole all --aggregation-rule=team=web"),
        ),
        *_RULE,
        Flag("non-resource-url", "list", help="Paths that are allowed; a * may be at the end."),
        Flag("aggregation-rule", "map", help="Labels of the cluster roles that this one is made of, KEY=VALUE."),
    ),
    Command(
        "rolebinding", "Give a role to users in a namespace", _role_binding,
        Help(
            "NAME (--clusterrole=NAME | --role=NAME) [--user=NAME] [--group=NAME] [--serviceaccount=NAMESPACE:NAME]",
            "Gives a role, or a cluster role, to users, groups and service accounts in one namespace.",
            ("Let jane read", "create rolebinding jane-reads --role=reader --user=jane"),
        ),
        *_BINDING,
        Flag("role", help="The role of the namespace."),
        Flag("clusterrole", help="The cluster role."),
    ),
    Command(
        "clusterrolebinding", "Give a cluster role to users in all namespaces", _cluster_role_binding,
        Help(
            "NAME --clusterrole=NAME [--user=NAME] [--group=NAME] [--serviceaccount=NAMESPACE:NAME]",
            "Gives a cluster role to users, groups and service accounts in the whole cluster.",
            ("Make the group ops administrators", "create clusterrolebinding ops --clusterrole=cluster-admin --group=ops"),
        ),
        *_BINDING, Flag("clusterrole", required=True, help="The cluster role."),
    ),
    Command(
        "serviceaccount", "Create a service account", _service_account,
        Help("NAME", "", ("Create one", "create serviceaccount robot")),
        *CREATE, aliases=("sa",),
    ),
    Command(
        "token", "Request a token for a service account", _token,
        Help(
            "NAME", "Prints a new token for a service account.",
            ("Get a token for an hour", "create token robot --duration=1h"),
        ),
        *PRINT,
        Flag("audience", "array", help="Who the token is for; may be repeated. Without it, the API server."),
        Flag("duration", "duration", help="How long it is to be valid, such as 10m; 0 leaves it to the server."),
        Flag("bound-object-kind", help="It ends with an object of this kind: Node, Pod or Secret."),
        Flag("bound-object-name", help="The name of that object."),
        Flag("bound-object-uid", help="The UID of that object; without it, that of the object there is."),
    ),
)  # fmt: skip
