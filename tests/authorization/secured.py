"""The memory API behind the real filters: authentication, impersonation, authorization, default policy."""

from __future__ import annotations

from typing import Any

from kapi.authentication.build import AuthenticationSettings, build_authentication
from kapi.authentication.service_account.issuer import TokenIssuer
from kapi.authentication.service_account.keys import KeySet
from kapi.authentication.static_tokens import parse_token_file
from kapi.authorization.build import AuthorizationSettings, build_authorization
from kapi.authorization.rbac.bootstrap import reconcile_policy
from kapi.endpoints.reviews.handlers import review_handlers
from kapi.endpoints.reviews.posted_review import ReviewServices
from kapi.filters.authentication import authentication
from kapi.filters.authorization import authorization
from kapi.filters.chain import FilterChain
from kapi.filters.impersonation import impersonation
from kapi.filters.request_info import received_timestamp, request_info
from kapi.registry.guards import install_claim_checks, install_escalation_checks
from kapi.registry.policy_parameters import install_parameter_checks, resolver
from kapi.serving.run import RequestRunner
from kapi.testing.http import MemoryRequest
from kapi.testing.memory_api import MemoryAPI, succeed
from tests.rsa_keys import rsa_key

ISSUER = "https://kubernetes.default.svc"
TOKENS = 'admin,admin,1,system:masters\nalice,alice,2,"dev"\nbob,bob,3,\n'


class SecuredAPI(MemoryAPI):
    """Started and with the default policy in the store; ``ask_as`` names the user by the token."""

    def __init__(self, tokens: str = TOKENS) -> None:
        super().__init__()
        self.policy = build_authorization(AuthorizationSettings())
        self.environment.authorizer = self.policy.authorizer
        install_escalation_checks(self.registry, self.policy.escalation)
        install_claim_checks(self.registry)
        install_parameter_checks(self.registry, resolver(lambda: (scope.resource for scope in self.table.scopes())))
        issuer = TokenIssuer(ISSUER, rsa_key("issuer"), self.clock.seconds)
        identity = build_authentication(
            AuthenticationSettings(
                static_tokens=parse_token_file(tokens),
                issuers=(ISSUER,),
                keys=KeySet([issuer.verification_key]),
                listers=self.environment.listers,
                clock=self.clock.seconds,
            )
        )
        services = ReviewServices(
            self.environment,
            authorizer=self.policy.authorizer,
            rules=self.policy.authorizer,
            tokens=identity.tokens,
            issuer=issuer,
            anonymous=True,
            api_audiences=(ISSUER,),
            listers=self.environment.listers,
        )
        self.table.handlers.update(review_handlers(services))
        filters = [
            received_timestamp(self.clock.seconds),
            request_info,
            authentication(identity.requests),
            impersonation(self.policy.authorizer),
            authorization(self.policy.authorizer),
        ]
        self.runner = RequestRunner(FilterChain(filters, self.site.answer), self.clock)
        succeed(self.caches.start())
        self.policy.index.follow(self.registry.client)
        self.policy.graph.follow(self.registry.client)
        succeed(reconcile_policy(self.registry.client))
        self.turn()

    def ask_as(self, token: str, method: str, uri: str, body: Any = None, **headers: str) -> MemoryRequest:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            given["Authorization"] = f"Bearer {token}"
        answer = self.ask(method, uri, body, headers=given)
        self.turn()  # what follows the store by watch learns of it within the reactor's turn
        return answer
