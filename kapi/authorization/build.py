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
    """``modes`` in the order they are asked; ``others`` holds the authorizers of ABAC and Webhook by mode."""

    modes: Sequence[str] = ("Node", "RBAC")
    others: Mapping[str, Authorizer] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Authorization:
    """``index`` and ``graph`` follow the store once ``follow(client)`` was called on them."""

    authorizer: UnionAuthorizer
    rbac: RBACAuthorizer
    index: PolicyIndex
    graph: NodeGraph
    escalation: EscalationCheck


def build_authorization(settings: AuthorizationSettings) -> Authorization:
    """Raises ValueError for a mode that is unknown or not configured."""
    index, graph = PolicyIndex(), NodeGraph()
    rbac = RBACAuthorizer(index)
    chain: list[Authorizer] = [PrivilegedGroups()]
    known: dict[str, Authorizer] = {
        "AlwaysAllow": AlwaysAllow(),
        "AlwaysDeny": AlwaysDeny(),
        "RBAC": rbac,
        "Node": NodeAuthorizer(graph, node_rules()),
        **settings.others,
    }
    for mode in settings.modes:
        if mode not in known:
            raise ValueError(f"unknown authorization mode {mode} specified")
        chain.append(known[mode])
    authorizer = UnionAuthorizer(chain)
    return Authorization(authorizer, rbac, index, graph, EscalationCheck(rbac, authorizer))
