"""The authorizer of a server by its modes (upstream: ``pkg/kubeapiserver/authorizer``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kapi.authorization.fixed import AlwaysAllow, AlwaysDeny, PrivilegedGroups
from kapi.authorization.interface import Authorizer
from kapi.authorization.node.authorizer import NodeAuthorizer
from kapi.authorization.node.graph import NodeGraph
from kapi.authorization.rbac.authorizer import RBACAuthorizer
from kapi.authorization.rbac.bootstrap import node_rules
from kapi.authorization.rbac.escalation import EscalationCheck
from kapi.authorization.rbac.index import PolicyIndex
from kapi.authorization.union import UnionAuthorizer

MODES = ("AlwaysAllow", "AlwaysDeny", "ABAC", "Webhook", "RBAC", "Node")


@dataclass(slots=True)
class AuthorizationSettings:
    """``modes`` in the order they are asked, or authorizers; ``others`` holds those of ABAC and Webhook by mode."""

    modes: Sequence[str | Authorizer] = ("Node", "RBAC")
    others: Mapping[str, Authorizer] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Authorization:
    """``index`` and ``graph`` follow the store once ``follow(client)`` was called on them."""

    authorizer: UnionAuthorizer
    rbac: RBACAuthorizer
    index: PolicyIndex
    graph: NodeGraph
    escalation: EscalationCheck
    known: Mapping[str, Authorizer]  # by mode

    def replace(self, modes: Sequence[str | Authorizer]) -> None:
        """Another chain from now on, in one step; what is being decided ends under the old one."""
        self.authorizer.authorizers = _chain(modes, self.known)


def _chain(modes: Sequence[str | Authorizer], known: Mapping[str, Authorizer]) -> tuple[Authorizer, ...]:
    chain: list[Authorizer] = [PrivilegedGroups()]
    for mode in modes:
        if not isinstance(mode, str):
            chain.append(mode)
        elif mode in known:
            chain.append(known[mode])
        else:
            raise ValueError(f"unknown authorization mode {mode} specified")
    return tuple(chain)


def build_authorization(settings: AuthorizationSettings) -> Authorization:
    """Raises ValueError for a mode that is unknown or not configured."""
    index, graph = PolicyIndex(), NodeGraph()
    rbac = RBACAuthorizer(index)
    known: dict[str, Authorizer] = {
        "AlwaysAllow": AlwaysAllow(),
        "AlwaysDeny": AlwaysDeny(),
        "RBAC": rbac,
        "Node": NodeAuthorizer(graph, node_rules()),
        **settings.others,
    }
    authorizer = UnionAuthorizer(_chain(settings.modes, known))
    return Authorization(authorizer, rbac, index, graph, EscalationCheck(rbac, authorizer), known)
