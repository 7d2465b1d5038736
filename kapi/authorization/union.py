"""Authorizers in order: the first decision counts (upstream: apiserver ``authorization/union``)."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import NamedTuple

from kapi.authorization.interface import Attributes, Authorizer, Decision, RuleResolver, RuleSet, Verdict, merged
from kapi.authorization.metrics import AuthorizationMeter
from kapi.machinery.golang import aggregate
from kapi.request.user import UserInfo


class Link(NamedTuple):
    """One authorizer of a chain.  With a ``type`` its decisions are counted under that and its ``name``."""

    authorizer: Authorizer
    type: str = ""
    name: str = ""


class UnionAuthorizer:
    """Calls the authorizers in order; returns an awaitable only when an authorizer does."""

    def __init__(self, links: Sequence[Link], meter: AuthorizationMeter | None = None) -> None:
        self.links = tuple(links)
        self._decisions = (meter or AuthorizationMeter()).decisions

    def authorize(self, attributes: Attributes) -> Verdict | Awaitable[Verdict]:
        reasons: list[str] = []
        errors: list[str] = []
        chain = self.links  # may be replaced while this decision waits
        for position, link in enumerate(chain):
            verdict = link.authorizer.authorize(attributes)
            if not isinstance(verdict, Verdict):
                return self._resume(chain[position:], attributes, verdict, reasons, errors)
            if verdict.decision is not Decision.NO_OPINION:
                return self._decided(link, verdict)
            _collect(verdict, reasons, errors)
        return Verdict(Decision.NO_OPINION, "\n".join(reasons), aggregate(errors))

    async def _resume(
        self,
        chain: Sequence[Link],
        attributes: Attributes,
        waiting: Awaitable[Verdict],
        reasons: list[str],
        errors: list[str],
    ) -> Verdict:
        """Continues with the first link of ``chain``; ``waiting`` is its verdict."""
        step: Verdict | Awaitable[Verdict] = waiting
        for position, link in enumerate(chain):
            if position:
                step = link.authorizer.authorize(attributes)
            verdict = step if isinstance(step, Verdict) else await step
            if verdict.decision is not Decision.NO_OPINION:
                return self._decided(link, verdict)
            _collect(verdict, reasons, errors)
        return Verdict(Decision.NO_OPINION, "\n".join(reasons), aggregate(errors))

    def _decided(self, link: Link, verdict: Verdict) -> Verdict:
        if link.type:
            self._decisions.add(link.type, link.name, "allowed" if verdict.decision is Decision.ALLOW else "denied")
        return verdict

    def rules_for(self, user: UserInfo, namespace: str) -> RuleSet:
        resolvers = [link.authorizer for link in self.links if isinstance(link.authorizer, RuleResolver)]
        return merged(resolvers, user, namespace)


def _collect(verdict: Verdict, reasons: list[str], errors: list[str]) -> None:
    if verdict.reason:
        reasons.append(verdict.reason)
    if verdict.error:
        errors.append(verdict.error)
