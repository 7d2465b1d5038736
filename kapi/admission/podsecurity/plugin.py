"""The PodSecurity admission plugin: enforces, records and warns; checks running pods when a namespace gets stricter."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass

from kapi.admission.initializer import Initializer
from kapi.admission.interface import CREATE, UPDATE, Attributes, Plugin
from kapi.admission.metrics import Meter
from kapi.admission.podsecurity.checks import CHECKS
from kapi.admission.podsecurity.levels import (
    BASELINE,
    LATEST,
    MODES,
    PREFIX,
    PRIVILEGED,
    RESTRICTED,
    Check,
    LevelVersion,
    Parsed,
    Policy,
    Rule,
    parse_level,
    parse_version,
    parsed,
    policy_of,
)
from kapi.machinery import status, tree
from kapi.machinery.each import elements
from kapi.machinery.field import FieldError, Path, duplicate, invalid
from kapi.machinery.golang import aggregate
from kapi.machinery.lifecycles import RELEASE
from kapi.machinery.names import dns_label, dns_subdomain
from kapi.machinery.tree import Object, Tree

#: The newest version in which any check changed: later ones are the same.
NEWEST = max(check.versions[-1][0] for check in CHECKS)

_MAX_CACHED = 500  # levels and versions
_rules: dict[LevelVersion, tuple[Rule, ...]] = {}
_MINOR = RELEASE.minor
_MAX_EVALUATED_PODS = 3000
_MAX_EVALUATION_SECONDS = 1.0
_IGNORED_SUBRESOURCES = frozenset({"exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"})
#: resource -> the path of its pod template
_TEMPLATES: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "replicationcontrollers"): ("spec", "template"),
    ("", "podtemplates"): ("template",),
    ("apps", "replicasets"): ("spec", "template"),
    ("apps", "deployments"): ("spec", "template"),
    ("apps", "statefulsets"): ("spec", "template"),
    ("apps", "daemonsets"): ("spec", "template"),
    ("batch", "jobs"): ("spec", "template"),
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
}


def rules(level: LevelVersion) -> tuple[Rule, ...]:
    """The rules of a level as of a version: baseline checks by name, then restricted ones by name."""
    found = _rules.get(level)
    if found is None:
        minor = NEWEST if level.minor == LATEST else min(level.minor, NEWEST)
        active: dict[str, tuple[Check, Rule]] = {}
        for check in CHECKS:
            rule = next((rule for since, rule in reversed(check.versions) if since <= minor), None)
            if rule is not None and (check.level == BASELINE or level.level == RESTRICTED):
                active[check.name] = (check, rule)
        overridden = {check.overrides for check, _ in active.values() if check.overrides}
        kept = [pair for name, pair in active.items() if name not in overridden]
        kept.sort(key=lambda pair: (pair[0].level != BASELINE, pair[0].name))
        found = () if level.level == PRIVILEGED else tuple(rule for _, rule in kept)
        if len(_rules) < _MAX_CACHED:
            _rules[level] = found
    return found


@dataclass(frozen=True, slots=True)
class Result:
    """The violations of a level by a pod."""

    findings: tuple[tuple[str, str], ...]

    @property
    def allowed(self) -> bool:
        return not self.findings

    @property
    def reasons(self) -> str:
        return ", ".join(reason for reason, _ in self.findings)

    @property
    def details(self) -> str:
        return ", ".join(f"{reason} ({detail})" if detail else reason for reason, detail in self.findings)


def evaluate(level: LevelVersion, metadata: Object, spec: Object) -> Result:
    findings = (rule(metadata, spec) for rule in rules(level))
    return Result(tuple(finding for finding in findings if finding is not None))


@dataclass(frozen=True, slots=True)
class Configuration:
    """PodSecurityConfiguration (pod-security.admission.config.k8s.io/v1)."""

    defaults: Policy = Policy()
    usernames: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    runtime_classes: frozenset[str] = frozenset()

    @classmethod
    def read(cls, document: Mapping[str, Tree] | None) -> Configuration:
        """Raises ValueError."""
        given = document or {}
        defaults, exemptions = (given.get(name) or {} for name in ("defaults", "exemptions"))
        errors: list[FieldError] = []

        def default(field: str, parse: Callable[[str], Parsed], usual: str) -> Parsed:
            text = defaults.get(field) or usual
            return parsed(parse, text, Path("defaults").child(field), errors, parse(usual))

        def names(field: str, rule: Callable[[str], Collection[str]]) -> frozenset[str]:
            found: set[str] = set()
            for i, name in enumerate(exemptions.get(field) or ()):
                here, problems = Path("exemptions").child(field).index(i), rule(name)
                if problems:
                    errors.append(invalid(here, name, ", ".join(problems)))
                elif name in found:
                    errors.append(duplicate(here, name))
                found.add(name)
            return frozenset(found)

        modes = {
            mode: LevelVersion(
                default(mode, parse_level, PRIVILEGED), default(f"{mode}-version", parse_version, "latest")
            )
            for mode in MODES
        }
        namespaces, classes = names("namespaces", dns_label), names("runtimeClasses", dns_subdomain)
        users = names("usernames", lambda name: () if name else ("username must not be empty",))
        if errors:
            raise ValueError(aggregate(map(str, errors)))
        return cls(Policy(**modes), users, namespaces, classes)


class PodSecurity(Plugin):
    operations = frozenset({CREATE, UPDATE})
    resources = frozenset({"pods", "namespaces", *(plural for _, plural in _TEMPLATES)})
    configured = True

    def __init__(self, initializer: Initializer, configuration: Tree) -> None:
        self.initializer = initializer
        self.configuration = Configuration.read(configuration)
        if initializer.meter is not None:
            self._show_frequent_counters(initializer.meter)

    @staticmethod
    def _show_frequent_counters(meter: Meter) -> None:
        """As upstream, /metrics has these series from the start."""
        for operation in ("create", "update"):
            meter.pod_evaluations.add("allow", PRIVILEGED, "latest", "enforce", operation, "pod", "", by=0)
            for resource in ("pod", "controller"):
                meter.pod_exemptions.add(operation, resource, "", by=0)

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        group, resource = attributes.resource.group, attributes.resource.resource
        if not group and resource == "pods":
            if attributes.subresource in _IGNORED_SUBRESOURCES:
                return None
        elif not group and resource == "namespaces":
            if not attributes.subresource:
                self._namespace(attributes)
            return None
        elif (group, resource) not in _TEMPLATES or attributes.subresource:
            return None
        exemption = self._exemption(attributes)
        if exemption:
            self._exempted(attributes, exemption)
            return None
        namespace = self.initializer.lister("", "namespaces").get("", attributes.namespace)
        if namespace is None:
            return self._later(attributes)
        self._pod_or_template(attributes, namespace)
        return None

    async def _later(self, attributes: Attributes) -> None:
        name = attributes.namespace
        namespace = await self.initializer.live("", "namespaces", name)
        if namespace is not None:
            self._pod_or_template(attributes, namespace)
            return
        self._failed(attributes, fatal=True)
        error = status.internal(f'failed to lookup namespace "{name}"')
        is_pod = attributes.resource.resource == "pods"
        text = error.message if is_pod else f'failed to lookup namespace "{name}"'
        self._note(attributes, "error", f'{text}: namespaces "{name}" not found')
        if is_pod:
            raise error

    def _exemption(self, attributes: Attributes) -> str:
        if attributes.namespace in self.configuration.namespaces:
            return "namespace"
        return "user" if attributes.user.name in self.configuration.usernames else ""

    @staticmethod
    def _note(attributes: Attributes, key: str, value: str) -> None:
        attributes.annotate(PREFIX + key, value)

    def _exempted(self, attributes: Attributes, why: str) -> None:
        self._note(attributes, "exempt", why)
        if self.initializer.meter is not None:
            self.initializer.meter.pod_exemptions.add(*_labels(attributes))

    def _failed(self, attributes: Attributes, *, fatal: bool) -> None:
        if self.initializer.meter is not None:
            self.initializer.meter.pod_errors.add("true" if fatal else "false", *_labels(attributes))

    def _count(self, attributes: Attributes, level: LevelVersion, mode: str, allowed: bool) -> None:
        meter = self.initializer.meter
        if meter is not None:
            word = "allow" if allowed else "deny"
            meter.pod_evaluations.add(word, level.level, _version(level), mode, *_labels(attributes))

    def _pod_or_template(self, attributes: Attributes, namespace: Object) -> None:
        policy, errors = policy_of(namespace["metadata"].get("labels"), self.configuration.defaults)
        is_pod = attributes.resource.resource == "pods" and not attributes.resource.group
        assert attributes.obj is not None
        if is_pod:
            if not errors and policy.privileged:
                self._note(attributes, "enforce-policy", str(LevelVersion()))
                self._count(attributes, policy.enforce, "enforce", allowed=True)
                return
            if attributes.operation == UPDATE and not _significant(attributes.obj, attributes.old or {}):
                return
            holder = attributes.obj
        else:
            if not errors and policy.warn.level == policy.audit.level == PRIVILEGED:
                return
            template = tree.dig(attributes.obj, *_TEMPLATES[(attributes.resource.group, attributes.resource.resource)])
            if template is None:
                return
            holder = template
        self._evaluate(attributes, policy, errors, holder, is_pod)

    def _evaluate(
        self, attributes: Attributes, policy: Policy, errors: list[FieldError], holder: Object, enforce: bool
    ) -> None:
        metadata, spec = holder.get("metadata") or {}, holder.get("spec") or {}
        if spec.get("runtimeClassName") and spec["runtimeClassName"] in self.configuration.runtime_classes:
            self._exempted(attributes, "runtimeClass")
            return
        if errors:
            shown = aggregate(map(str, errors))
            self._note(attributes, "error", f"Failed to parse policy: {shown}")
            self._failed(attributes, fatal=False)
        results: dict[LevelVersion, Result] = {}

        def result(level: LevelVersion) -> Result:
            if level not in results:
                results[level] = evaluate(level, metadata, spec)
            return results[level]

        allowed = True
        if enforce:
            self._note(attributes, "enforce-policy", str(policy.enforce))
            allowed = result(policy.enforce).allowed
            self._count(attributes, policy.enforce, "enforce", allowed)
        if not result(policy.audit).allowed:
            self._count(attributes, policy.audit, "audit", allowed=False)
            text = f'would violate PodSecurity "{policy.audit}": {result(policy.audit).details}'
            self._note(attributes, "audit-violations", text)
        if not allowed:
            why = f'violates PodSecurity "{policy.enforce}": {result(policy.enforce).details}'
            raise status.forbidden(attributes.resource.group_resource, attributes.name, why)
        if not result(policy.warn).allowed:
            self._count(attributes, policy.warn, "warn", allowed=False)
            attributes.warn(f'would violate PodSecurity "{policy.warn}": {result(policy.warn).details}')

    # -- namespaces -----------------------------------------------------------------------------------------------

    def _namespace(self, attributes: Attributes) -> None:
        assert attributes.obj is not None
        labels = attributes.obj["metadata"].get("labels") or {}
        policy, errors = policy_of(labels, self.configuration.defaults)
        if attributes.operation == UPDATE:
            assert attributes.old is not None
            old, old_errors = policy_of(attributes.old["metadata"].get("labels"), self.configuration.defaults)
            if errors and [str(error) for error in errors] != [str(error) for error in old_errors]:
                raise status.invalid(attributes.kind.group_kind, attributes.name, errors)
            new = policy.enforce
            if new == old.enforce or new.level == PRIVILEGED:
                return
            if new.minor == old.enforce.minor and new.rank < old.enforce.rank:
                return
        elif errors:
            raise status.invalid(attributes.kind.group_kind, attributes.name, errors)
        name = attributes.obj["metadata"].get("name", "")
        if name in self.configuration.namespaces:
            warning = self._exempt_warning(name, policy, labels)
            if warning:
                attributes.warn(warning)
        elif attributes.operation == UPDATE:
            for warning in self._running_pods(name, policy.enforce):
                attributes.warn(warning)

    def _exempt_warning(self, name: str, policy: Policy, labels: Mapping[str, str]) -> str:
        if policy.privileged or policy.equivalent(self.configuration.defaults):
            return ""
        parts = [
            f"{mode}={level}"
            for mode, level in (("enforce", policy.enforce), ("audit", policy.audit), ("warn", policy.warn))
            if level.level != PRIVILEGED and (PREFIX + mode in labels or f"{PREFIX}{mode}-version" in labels)
        ]
        return f'namespace "{name}" is exempt from Pod Security, and the policy ({", ".join(parts)}) will be ignored'

    def _running_pods(self, namespace: str, enforce: LevelVersion) -> list[str]:
        """Warnings about pods that the new level would refuse; checks at most 3,000 pods, and for at most a second."""
        pods = self._prioritized(self.initializer.lister("", "pods").list(namespace))
        total, checked = len(pods), 0
        until = self.initializer.monotonic() + _MAX_EVALUATION_SECONDS
        found: dict[str, list[str]] = {}
        for pod in pods[:_MAX_EVALUATED_PODS]:
            result = evaluate(enforce, pod["metadata"], pod.get("spec") or {})
            if not result.allowed:
                found.setdefault(result.reasons, []).append(pod["metadata"]["name"])
            checked += 1
            if self.initializer.monotonic() > until:
                break
        warnings = []
        if checked < total:
            warnings.append(
                f"new PodSecurity enforce level only checked against the first {checked} of {total} existing pods"
            )
        if found:
            warnings.append(
                f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{enforce}"'
            )
        lines = []
        for reasons, names in found.items():
            others = len(names) - 1
            more = "" if not others else f" (and {others} other pod{'s' if others > 1 else ''})"
            lines.append(f"{min(names)}{more}: {reasons}")
        return warnings + sorted(lines)

    def _prioritized(self, pods: list[Object]) -> list[Object]:
        """Pods without a controller and one pod of each controller first, so that a limited check sees every kind."""
        first: list[Object] = []
        rest: list[Object] = []
        seen: set[str] = set()
        for pod in pods:
            if tree.dig(pod, "spec", "runtimeClassName") in self.configuration.runtime_classes:
                continue
            owners = pod["metadata"].get("ownerReferences") or ()
            controller = next((owner.get("uid", "") for owner in owners if owner.get("controller")), None)
            (rest if controller in seen else first).append(pod)
            if controller is not None:
                seen.add(controller)
        return first + rest


def _labels(attributes: Attributes) -> tuple[str, str, str]:
    """The labels of a request in metrics: operation, resource, subresource."""
    is_pod = attributes.resource.resource == "pods" and not attributes.resource.group
    return attributes.operation.lower(), "pod" if is_pod else "controller", attributes.subresource


def _version(level: LevelVersion) -> str:
    """The label of a version in metrics; the number of labels is bounded."""
    if level.minor == LATEST or level.level == PRIVILEGED:
        return "latest"
    return "future" if level.minor > _MINOR else f"v1.{level.minor}"


def _significant(pod: Object, old: Object) -> bool:
    """Whether an update can change the result of the checks: only images and containers can."""
    new_spec, old_spec = pod.get("spec") or {}, old.get("spec") or {}
    for field in ("containers", "initContainers"):
        now, before = new_spec.get(field) or [], old_spec.get(field) or []
        if len(now) != len(before):
            return True
        if any(one.get("image") != other.get("image") for one, other in zip(now, before, strict=True)):
            return True
    images = {container.get("name"): container.get("image") for container in elements(old_spec, "ephemeralContainers")}
    return any(
        container.get("name") not in images or images[container.get("name")] != container.get("image")
        for container in elements(new_spec, "ephemeralContainers")
    )
