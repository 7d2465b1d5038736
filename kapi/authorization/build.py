"""The authorizer of a server by its modes (upstream: ``pkg/kubeapiserver/authorizer``)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from kapi.authorization.fixed import AlwaysAllow, AlwaysDeny, PrivilegedGroups, PublicPaths
from kapi.authorization.interface import Authorizer
from kapi.authorization.metrics import AuthorizationMeter
from kapi.authorization.node.authorizer import NodeAuthorizer
from kapi.authorization.node.graph import NodeGraph
from kapi.authorization.rbac.authorizer import RBACAuthorizer
from kapi.authorization.rbac.bootstrap import node_rules
from kapi.authorization.rbac.bootstrap_roles import DEFAULT_GATES
from kapi.authorization.rbac.escalation import EscalationCheck
from kapi.authorization.rbac.index import PolicyIndex
from kapi.authorization.union import Link, UnionAuthorizer


class Mode(NamedTuple):
    """One step of the chain: the type of an authorizer, its name, and the authorizer where there may be several of a type."""

    type: str
    name: str = ""
    authorizer: Authorizer | None = None


def modes_of(types: Iterable[str]) -> list[Mode]:
    """``--authorization-mode``, with the names upstream gives."""
    return [Mode(type, "default" if type == "Webhook" else type.lower()) for type in types]


class AuthorizationSettings(msgspec.Struct):
    """``modes`` in the order in which they decide; ``others`` holds the authorizers of ABAC and Webhook by type.

    ``public``: paths that every client may read; ``gates``: the feature gates that are on.
    """

    modes: Sequence[Mode] = tuple(modes_of(("Node", "RBAC")))
    others: Mapping[str, Authorizer] = msgspec.field(default_factory=dict)
    meter: AuthorizationMeter = msgspec.field(default_factory=AuthorizationMeter)
    public: Collection[str] = ()
    gates: frozenset[str] = DEFAULT_GATES


class Authorization(msgspec.Struct, frozen=True):
    """``index`` and ``graph`` follow the store once ``follow(client)`` was called on them."""

    authorizer: UnionAuthorizer
    rbac: RBACAuthorizer
    index: PolicyIndex
    graph: NodeGraph
    escalation: EscalationCheck
    known: Mapping[str, Authorizer]  # by type
    settings: AuthorizationSettings

    def replace(self, modes: Sequence[Mode]) -> None:
        """Replaces the chain in one step; decisions under way end under the old one."""
        self.authorizer.links = _chain(modes, self.known, self.settings.public)


def _chain(modes: Sequence[Mode], known: Mapping[str, Authorizer], public: Collection[str]) -> tuple[Link, ...]:
    chain = [Link(PrivilegedGroups())]
    if public:
        chain.append(Link(PublicPaths(public)))
    for mode in modes:
        authorizer = mode.authorizer or known.get(mode.type)
        if authorizer is None:
            raise ValueError(f"unknown authorization mode {mode.type} specified")
        chain.append(Link(authorizer, mode.type, mode.name))
    return tuple(chain)


def build_authorization(
    settings: AuthorizationSettings, index: PolicyIndex | None = None, graph: NodeGraph | None = None
) -> Authorization:
    """Raises ValueError for a mode that is unknown or not configured."""
    index, graph = index or PolicyIndex(), graph or NodeGraph()
    rbac = RBACAuthorizer(index)
    known: dict[str, Authorizer] = {
        "AlwaysAllow": AlwaysAllow(),
        "AlwaysDeny": AlwaysDeny(),
        "RBAC": rbac,
        "Node": NodeAuthorizer(graph, node_rules(settings.gates), settings.gates),
        **settings.others,
    }
    authorizer = UnionAuthorizer(_chain(settings.modes, known, settings.public), settings.meter)
    return Authorization(authorizer, rbac, index, graph, EscalationCheck(rbac, authorizer), known, settings)
