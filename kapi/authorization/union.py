"""Authorizers one after another: the first that decides counts (upstream: apiserver ``authorization/union``)."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from kapi.authorization.errors import aggregate
from kapi.authorization.interface import Attributes, Authorizer, Decision, Verdict
from kapi.authorization.rules import RuleResolver, RuleSet, merged
from kapi.request.user import UserInfo


class UnionAuthorizer:
    """Asks each authorizer in order; waits only where one of them has to."""

    def __init__(self, authorizers: Sequence[Authorizer]) -> None:
        self.authorizers = tuple(authorizers)

    def authorize(self, attributes: Attributes) -> Verdict | Awaitable[Verdict]:
        reasons: list[str] = []
        errors: list[str] = []
        chain = self.authorizers  # may be exchanged while this decision waits
        for position, authorizer in enumerate(chain, 1):
            verdict = authorizer.authorize(attributes)
            if not isinstance(verdict, Verdict):
                return self._resume(chain[position:], attributes, verdict, reasons, errors)
            if verdict.decision is not Decision.NO_OPINION:
                return verdict
            _note(verdict, reasons, errors)
        return Verdict(Decision.NO_OPINION, "\n".join(reasons), aggregate(errors))

    async def _resume(
        self,
        rest: Sequence[Authorizer],
        attributes: Attributes,
        waiting: Awaitable[Verdict],
        reasons: list[str],
        errors: list[str],
    ) -> Verdict:
        verdict = await waiting
        for authorizer in rest:
            if verdict.decision is not Decision.NO_OPINION:
                return verdict
            _note(verdict, reasons, errors)
            step = authorizer.authorize(attributes)
            verdict = step if isinstance(step, Verdict) else await step
        if verdict.decision is not Decision.NO_OPINION:
            return verdict
        _note(verdict, reasons, errors)
        return Verdict(Decision.NO_OPINION, "\n".join(reasons), aggregate(errors))

    def rules_for(self, user: UserInfo, namespace: str) -> RuleSet:
        resolvers = [authorizer for authorizer in self.authorizers if isinstance(authorizer, RuleResolver)]
        return merged(resolvers, user, namespace)


def _note(verdict: Verdict, reasons: list[str], errors: list[str]) -> None:
    if verdict.reason:
        reasons.append(verdict.reason)
    if verdict.error:
        errors.append(verdict.error)
