"""Service accounts, roles, bindings, certificate signing requests."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator

from kapi.kubectl.describers.lines import (
    CLUSTER_HEAD,
    CREATED,
    HEAD,
    NAME,
    NONE,
    Lines,
    at,
    block,
    line,
    map_text,
    row,
    table,
)
from kapi.kubectl.messages import CommandError
from kapi.machinery.ages import human_duration
from kapi.machinery.golang import value_text
from kapi.machinery.tree import Object


def _pull_secrets(out: Lines, obj: Object) -> None:
    title = "Image pull secrets:"
    names = [one.get("name", "") for one in obj.get("imagePullSecrets") or ()]
    for number, name in enumerate(names or [NONE]):
        out.put(f"{' ' * len(title) if number else title}\t{name}\n")


SERVICE_ACCOUNT = (*HEAD, _pull_secrets)


class Rule(tuple[tuple[str, ...], ...]):
    """Verbs, API groups, resources, resource names and non-resource URLs of a rule."""

    __slots__ = ()

    def __str__(self) -> str:
        """As Go prints a PolicyRule; rules are sorted by it."""
        names = ("Verbs", "APIGroups", "Resources", "ResourceNames", "NonResourceURLs")
        return (
            "&PolicyRule{"
            + "".join(f"{name}:{value_text(list(found))}," for name, found in zip(names, self, strict=True))
            + "}"
        )


def single_rules(rule: Object) -> Iterator[Rule]:
    """A rule for each group, resource, name and verb."""
    names = rule.get("resourceNames") or [None]
    for group, resource, verb, name in itertools.product(
        *(rule.get(key) or () for key in ("apiGroups", "resources", "verbs")), names
    ):
        yield Rule(((verb,), (group,), (resource,), (name,) if name is not None else (), ()))
    for url, verb in itertools.product(rule.get("nonResourceURLs") or (), rule.get("verbs") or ()):
        yield Rule(((verb,), (), (), (), (url,)))


def compact(rules: list[Object]) -> list[Rule]:
    """Rules of one resource each, with all their verbs; sorted as kubectl sorts them."""
    verbs: dict[Rule, dict[str, None]] = {}
    others: list[Rule] = []
    for rule in itertools.chain.from_iterable(map(single_rules, rules)):
        if rule[4]:
            others.append(rule)
        else:
            verbs.setdefault(Rule(((), *rule[1:])), {}).update(dict.fromkeys(rule[0]))
    return sorted([*others, *(Rule((tuple(found), *rest[1:])) for rest, found in verbs.items())], key=str)


def rule_cells(rule: Rule) -> str:
    """Resource with its group, URLs, names and verbs as cells of a table."""
    verbs, groups, resources, names, urls = rule
    resource = ""
    if resources:
        name, slash, subresource = resources[0].partition("/")
        resource = name + (f".{groups[0]}" if groups and groups[0] else "") + slash + subresource
    return "\t".join([resource, *(value_text(list(cell)) for cell in (urls, names, verbs))])


RULE_COLUMNS = ("Resources", "Non-Resource URLs", "Resource Names", "Verbs")


def _rules(out: Lines, obj: Object) -> None:
    out.put("PolicyRule:\n")
    out.table(RULE_COLUMNS, map(rule_cells, compact(obj.get("rules") or [])), 1)


ROLE = (*CLUSTER_HEAD, _rules)
BINDING = (
    *CLUSTER_HEAD,
    block("Role", "roleRef", row("Kind", "kind", "", level=1), row("Name", "name", "", level=1)),
    table("subjects", "Kind|Name|Namespace", "kind name namespace", "Subjects", always=True),
)

# -- certificates -------------------------------------------------------------------------------------------------------

_SUBJECT = (
    ("Organization", "organizationName"),
    ("Organizational Unit", "organizationalUnitName"),
    ("Country", "countryName"),
    ("Locality", "localityName"),
    ("Province", "stateOrProvinceName"),
    ("StreetAddress", "streetAddress"),
    ("PostalCode", "postalCode"),
)


def _approval(obj: Object) -> str:
    types = {one["type"] for one in at(obj, "status.conditions") or ()}
    status = next((one for one in ("Denied", "Approved") if one in types), "Pending")
    return status + (",Failed" if "Failed" in types else "") + (",Issued" if at(obj, "status.certificate") else "")


def _request(out: Lines, obj: Object) -> None:
    from cryptography import x509
    from cryptography.x509.oid import ObjectIdentifier

    from kapi.machinery.pem import signing_request

    try:
        request = signing_request(base64.b64decode(at(obj, "spec.request") or ""))
    except ValueError as error:
        raise CommandError(f"Error parsing CSR: {error}") from None
    by_name: dict[str, list[str]] = {}
    for attribute in request.subject:
        by_name.setdefault(ObjectIdentifier(attribute.oid.dotted_string)._name, []).append(str(attribute.value))
    out.put(f"Subject:\n\tCommon Name:\t{(by_name.get('commonName') or [''])[-1]}\n")
    out.put(f"\tSerial Number:\t{(by_name.get('serialNumber') or [''])[-1]}\n")
    _values(out, [(title, by_name.get(name) or []) for title, name in _SUBJECT])
    try:
        names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return
    kinds = (
        ("DNS Names", x509.DNSName),
        ("Email Addresses", x509.RFC822Name),
        ("URIs", x509.UniformResourceIdentifier),
        ("IP Addresses", x509.IPAddress),
    )
    found = [(title, [str(one) for one in names.get_values_for_type(kind)]) for title, kind in kinds]
    if any(values for _, values in found):
        out.put("Subject Alternative Names:\n")
        _values(out, found)


def _values(out: Lines, found: list[tuple[str, list[str]]]) -> None:
    for title, values in found:
        if values:
            out.put(f"\t{title}:\t" + "\n\t\t".join(values) + "\n")


CERTIFICATE_SIGNING_REQUEST = (
    NAME,
    row("Labels", "metadata.labels", NONE, map_text),
    row("Annotations", "metadata.annotations", NONE, map_text),
    CREATED,
    row("Requesting User", "spec.username", ""),
    row("Signer", "spec.signerName"),
    row("Requested Duration", "spec.expirationSeconds", show=human_duration),
    line(lambda obj: f"Status:\t{_approval(obj)}"),
    _request,
)
