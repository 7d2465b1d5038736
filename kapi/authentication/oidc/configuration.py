"""The configuration of JWT authenticators: ``jwt`` entries of AuthenticationConfiguration, or the ``--oidc-*`` flags.

Upstream: apiserver ``apis/apiserver/validation`` (KEP-3331).  An entry is a plain tree, as the file has it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from kapi import cel
from kapi.authorization.match_conditions import uncompilable
from kapi.cel import syntax
from kapi.cel.types import ANY, BOOL, STRING, CelType, StructField, StructType, list_of, map_of
from kapi.machinery import pem
from kapi.machinery.field import FieldError, Path, duplicate, invalid, required
from kapi.machinery.tree import Object, Tree
from kapi.machinery.urls import parse_url
from kapi.resources.shared.paths import domain_prefixed_path

_RESERVED = ("k8s.io", "kubernetes.io")
_EGRESS = ("controlplane", "cluster")
_USER = StructType(
    "kubernetes.UserInfo",
    {
        "username": StructField("username", STRING),
        "uid": StructField("uid", STRING),
        "groups": StructField("groups", list_of(STRING)),
        "extra": StructField("extra", map_of(STRING, list_of(STRING))),
    },
)


@dataclass(slots=True)
class Expressions:
    """The compiled CEL expressions of one entry."""

    username: cel.Program | None = None
    groups: cel.Program | None = None
    uid: cel.Program | None = None
    extra: list[tuple[str, cel.Program]] = field(default_factory=list)
    claim_rules: list[tuple[cel.Program, str]] = field(default_factory=list)  # each with its message
    user_rules: list[tuple[cel.Program, str]] = field(default_factory=list)


def entry_from_flags(options: Mapping[str, Tree]) -> Object:
    """The entry that has the meaning of the ``--oidc-*`` flags (upstream: ``options/authentication.go``).

    ``options``: issuer_url, client_id, ca (PEM text), username_claim, username_prefix, groups_claim, groups_prefix,
    required_claims.
    """
    issuer, claim = options["issuer_url"], options.get("username_claim") or "sub"
    prefix = options.get("username_prefix", "")
    if prefix == "-":
        prefix = ""
    elif not prefix and claim != "email":
        prefix = issuer + "#"
    mappings: Object = {"username": {"claim": claim, "prefix": prefix}}
    if options.get("groups_claim"):
        mappings["groups"] = {"claim": options["groups_claim"], "prefix": options.get("groups_prefix", "")}
    rules = [{"claim": key, "requiredValue": value} for key, value in (options.get("required_claims") or {}).items()]
    entry: Object = {
        "issuer": {"url": issuer, "audiences": [options["client_id"]]},
        "claimMappings": mappings,
        "claimValidationRules": rules,
    }
    if options.get("ca"):
        entry["issuer"]["certificateAuthority"] = options["ca"]
    return entry


def validate_entries(
    entries: list[Object], disallowed: Collection[str], egress_selectors: bool = True
) -> tuple[list[Expressions], list[FieldError]]:
    """The compiled expressions of each entry, and the errors.

    ``disallowed``: the server's own issuers; ``egress_selectors``: whether entries may choose the network.
    """
    compiled: list[Expressions] = []
    errors: list[FieldError] = []
    issuers: set[str] = set()
    discoveries: set[str] = set()
    root = Path("jwt")
    for position, entry in enumerate(entries):
        path = root.index(position)
        reader = _Entry(entry, path, disallowed, egress_selectors)
        compiled.append(reader.read())
        errors += reader.errors
        issuer = entry.get("issuer") or {}
        url, discovery = issuer.get("url", ""), issuer.get("discoveryURL", "")
        if url in issuers:
            errors.append(duplicate(path.child("issuer", "url"), url))
        issuers.add(url)
        if discovery:
            if discovery in discoveries:
                errors.append(duplicate(path.child("issuer", "discoveryURL"), discovery))
            discoveries.add(discovery)
    return compiled, errors


class _Entry:
    """Checks and compiles one entry."""

    def __init__(self, entry: Object, path: Path, disallowed: Collection[str], egress_selectors: bool) -> None:
        self.entry, self.path, self.disallowed = entry, path, disallowed
        self.egress_selectors = egress_selectors
        self.errors: list[FieldError] = []
        self.claims = cel.Environment({"claims": map_of(STRING, ANY)})
        self.user = cel.Environment({"user": _USER}, structs=(_USER,))

    def read(self) -> Expressions:
        found = Expressions()
        self._issuer()
        self._claim_rules(found)
        self._mappings(found)
        self._user_rules(found)
        return found

    def _issuer(self) -> None:
        issuer, path = self.entry.get("issuer") or {}, self.path.child("issuer")
        url, discovery = issuer.get("url", ""), issuer.get("discoveryURL", "")
        if not url:
            self.errors.append(required(path.child("url"), ""))
        else:
            self._url(url, path.child("url"), self.disallowed)
        if discovery:
            if url.rstrip("/") == discovery.rstrip("/"):
                text = "discoveryURL must be different from URL"
                self.errors.append(invalid(path.child("discoveryURL"), discovery, text))
            self._url(discovery, path.child("discoveryURL"), ())
        self._audiences(issuer, path)
        authority = issuer.get("certificateAuthority", "")
        if authority:
            try:
                pem.certificate_pool(authority.encode())
            except ValueError as error:
                self.errors.append(invalid(path.child("certificateAuthority"), "<omitted>", str(error)))
        egress = issuer.get("egressSelectorType", "")
        if egress and not self.egress_selectors:
            gate = "StructuredAuthenticationConfigurationEgressSelector"
            text = f"egress selector is not supported when {gate} feature gate is disabled"
            self.errors.append(invalid(path.child("egressSelectorType"), egress, text))
        if egress and egress not in _EGRESS:
            text = "egress selector must be either controlplane or cluster"
            self.errors.append(invalid(path.child("egressSelectorType"), egress, text))

    def _url(self, url: str, path: Path, disallowed: Collection[str]) -> None:
        if url in disallowed:
            names = " ".join(sorted(disallowed))
            self.errors.append(invalid(path, url, f"URL must not overlap with disallowed issuers: [{names}]"))
        try:
            parts = parse_url(url)
        except ValueError as error:
            self.errors.append(invalid(path, url, str(error)))
            return
        for wrong, text in (
            (parts.scheme != "https", "URL scheme must be https"),
            (parts.user is not None, "URL must not contain a username or password"),
            (bool(parts.raw_query), "URL must not contain a query"),
            (bool(parts.fragment), "URL must not contain a fragment"),
        ):
            if wrong:
                self.errors.append(invalid(path, url, text))

    def _audiences(self, issuer: Object, path: Path) -> None:
        audiences, policy = issuer.get("audiences") or [], issuer.get("audienceMatchPolicy", "")
        at = path.child("audiences")
        if not audiences:
            self.errors.append(required(at, f"at least one {at} is required"))
            return
        seen: set[str] = set()
        for position, audience in enumerate(audiences):
            if not audience:
                self.errors.append(required(at.index(position), ""))
            if audience in seen:
                self.errors.append(duplicate(at.index(position), audience))
            seen.add(audience)
        if policy not in (("MatchAny",) if len(audiences) > 1 else ("", "MatchAny")):
            constraint = (
                "must be MatchAny for multiple audiences"
                if len(audiences) > 1
                else ("must be empty or MatchAny for single audience")
            )
            self.errors.append(invalid(path.child("audienceMatchPolicy"), policy, f"audienceMatchPolicy {constraint}"))

    def _compile(
        self, environment: cel.Environment, expression: str, path: Path, *, is_rule: bool = False
    ) -> cel.Program | None:
        """Compiles an expression.  A rule must have the type boolean; the type of a mapping is checked at evaluation."""
        try:
            return environment.compile(expression, mismatch=_no_bool if is_rule else None)
        except cel.CompileErrors as error:
            self.errors.append(uncompilable(path, expression, error))
            return None

    def _claim_rules(self, found: Expressions) -> None:
        claims: set[str] = set()
        expressions: set[str] = set()
        root = self.path.child("claimValidationRules")
        for position, rule in enumerate(self.entry.get("claimValidationRules") or ()):
            path, claim, expression = root.index(position), rule.get("claim", ""), rule.get("expression", "")
            if claim and expression:
                self.errors.append(invalid(path, claim, "claim and expression can't both be set"))
            elif claim:
                if rule.get("message"):
                    text = "may not be specified when claim is set"
                    self.errors.append(invalid(path.child("message"), rule["message"], text))
                if claim in claims:
                    self.errors.append(duplicate(path.child("claim"), claim))
                claims.add(claim)
            elif expression:
                if rule.get("requiredValue"):
                    text = "may not be specified when expression is set"
                    self.errors.append(invalid(path.child("requiredValue"), rule["requiredValue"], text))
                if expression in expressions:
                    self.errors.append(duplicate(path.child("expression"), expression))
                    continue
                expressions.add(expression)
                program = self._compile(self.claims, expression, path.child("expression"), is_rule=True)
                if program is not None:
                    found.claim_rules.append((program, rule.get("message", "")))
            else:
                self.errors.append(required(path, "claim or expression is required"))

    def _mappings(self, found: Expressions) -> None:
        mappings, path = self.entry.get("claimMappings") or {}, self.path.child("claimMappings")
        found.username = self._mapping(mappings.get("username") or {}, path.child("username"), needed=True)
        found.groups = self._mapping(mappings.get("groups") or {}, path.child("groups"), needed=False)
        uid = mappings.get("uid") or {}
        if uid.get("claim") and uid.get("expression"):
            self.errors.append(invalid(path.child("uid"), "", "claim and expression can't both be set"))
        elif uid.get("expression"):
            found.uid = self._compile(self.claims, uid["expression"], path.child("uid", "expression"))
        self._extra(mappings.get("extra") or [], path.child("extra"), found)
        self._verified_email(path, found)

    def _mapping(self, mapping: Object, path: Path, needed: bool) -> cel.Program | None:
        claim, expression, prefix = mapping.get("claim", ""), mapping.get("expression", ""), mapping.get("prefix")
        if claim and expression:
            self.errors.append(invalid(path, "", "claim and expression can't both be set"))
        elif not claim and not expression and needed:
            self.errors.append(required(path, "claim or expression is required"))
        elif claim and prefix is None:
            text = "prefix is required when claim is set. It can be set to an empty string to disable prefixing"
            self.errors.append(required(path.child("prefix"), text))
        elif expression:
            if prefix is not None:
                self.errors.append(invalid(path.child("prefix"), prefix, "may not be specified when expression is set"))
            return self._compile(self.claims, expression, path.child("expression"))
        return None

    def _extra(self, mappings: list[Object], root: Path, found: Expressions) -> None:
        seen: set[str] = set()
        for position, mapping in enumerate(mappings):
            path, key = root.index(position), mapping.get("key", "")
            host = key.partition("/")[0]
            self.errors += domain_prefixed_path(key, path.child("key"))
            if key != key.lower():
                self.errors.append(invalid(path.child("key"), key, "must be lowercase"))
            if host != key and any(host == name or host.endswith("." + name) for name in _RESERVED):
                text = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"
                self.errors.append(invalid(path.child("key"), key, text))
            if key in seen:
                self.errors.append(duplicate(path.child("key"), key))
                continue
            seen.add(key)
            expression = mapping.get("valueExpression", "")
            if not expression:
                self.errors.append(required(path.child("valueExpression"), ""))
                continue
            program = self._compile(self.claims, expression, path.child("valueExpression"))
            if program is not None:
                found.extra.append((key, program))

    def _verified_email(self, path: Path, found: Expressions) -> None:
        """An email may be the user name only if an expression checks that it was verified."""
        if found.username is None or not _selects(found.username, "email"):
            return
        others = [program for _, program in found.extra] + [program for program, _ in found.claim_rules]
        if not any(_selects(program, "email_verified") for program in (found.username, *others)):
            text = (
                "claims.email_verified must be used in claimMappings.username.expression or "
                "claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is "
                "used in claimMappings.username.expression"
            )
            self.errors.append(invalid(path.child("username", "expression"), found.username.source, text))

    def _user_rules(self, found: Expressions) -> None:
        seen: set[str] = set()
        root = self.path.child("userValidationRules")
        for position, rule in enumerate(self.entry.get("userValidationRules") or ()):
            path, expression = root.index(position).child("expression"), rule.get("expression", "")
            if not expression:
                self.errors.append(required(path, ""))
            elif expression in seen:
                self.errors.append(duplicate(path, expression))
            else:
                seen.add(expression)
                program = self._compile(self.user, expression, path, is_rule=True)
                if program is not None:
                    found.user_rules.append((program, rule.get("message", "")))


def _no_bool(result: CelType) -> str:
    return "" if result == BOOL else "must evaluate to bool"


def _selects(program: cel.Program, field: str) -> bool:
    """Whether an expression reads ``claims.<field>`` (or ``claims.?<field>``, or ``has(claims.<field>)``)."""
    todo: list[syntax.Expr] = [program.tree]
    while todo:
        node = todo.pop()
        if isinstance(node, syntax.Select) and node.field == field and _is_claims(node.operand):
            return True
        if isinstance(node, syntax.Call) and node.function == "_?._" and _is_claims(node.args[0]):
            name = node.args[1]
            if isinstance(name, syntax.Literal) and name.value == field:
                return True
        todo += syntax.children(node)
    return False


def _is_claims(node: syntax.Expr) -> bool:
    return isinstance(node, syntax.Ident) and node.name == "claims"
