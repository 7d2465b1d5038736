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
        for position, authorizer in enumerate(self.authorizers, 1):
            verdict = authorizer.authorize(attributes)
            if not isinstance(verdict, Verdict):
                return self._resume(attributes, verdict, position, reasons, errors)
            if verdict.decision is not Decision.NO_OPINION:
                return verdict
            _note(verdict, reasons, errors)
        return Verdict(Decision.NO_OPINION, "\n".join(reasons), aggregate(errors))

    async def _resume(
        self,
        attributes: Attributes,
        waiting: Awaitable[Verdict],
        position: int,
        reasons: list[str],
        errors: list[str],
    ) -> Verdict:
        verdict = await waiting
        while verdict.decision is Decision.NO_OPINION:
            _note(verdict, reasons, errors)
            if position >= len(self.authorizers):
                return Verdict(Decision.NO_OPINION, "\n".join(reasons), aggregate(errors))
            step = self.authorizers[position].authorize(attributes)
            position += 1
            verdict = step if isinstance(step, Verdict) else await step
        return verdict

    def rules_for(self, user: UserInfo, namespace: str) -> RuleSet:
        resolvers = [authorizer for authorizer in self.authorizers if isinstance(authorizer, RuleResolver)]
        return merged(resolvers, user, namespace)


def _note(verdict: Verdict, reasons: list[str], errors: list[str]) -> None:
    if verdict.reason:
        reasons.append(verdict.reason)
    if verdict.error:
        errors.append(verdict.error)
