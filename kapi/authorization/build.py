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
    """One step of the chain: type and name of an authorizer, and the authorizer itself if there may be several of the type."""

    type: str
    name: str = ""
    authorizer: Authorizer | None = None


def modes_of(types: Iterable[str]) -> list[Mode]:
    """The modes of ``--authorization-mode``, with upstream's names."""
    return [Mode(type, "default" if type == "Webhook" else type.lower()) for type in types]


class AuthorizationSettings(msgspec.Struct):
    """``modes`` are in the order in which they decide; ``others`` has the authorizers of ABAC and Webhook by type.

    ``public``: paths that every client may read; ``gates``: the feature gates that are on.
    """

    modes: Sequence[Mode] = tuple(modes_of(("Node", "RBAC")))
    others: Mapping[str, Authorizer] = msgspec.field(default_factory=dict)
    meter: AuthorizationMeter = msgspec.field(default_factory=AuthorizationMeter)
    public: Collection[str] = ()
    gates: frozenset[str] = DEFAULT_GATES


class Authorization(msgspec.Struct, frozen=True):
    """``index`` and ``graph`` are empty until their ``follow(client)`` is called."""

    authorizer: UnionAuthorizer
    rbac: RBACAuthorizer
    index: PolicyIndex
    graph: NodeGraph
    escalation: EscalationCheck
    known: Mapping[str, Authorizer]  # by type
    settings: AuthorizationSettings

    def replace(self, modes: Sequence[Mode]) -> None:
        """Replaces the chain in one step; running decisions use the old one to their end."""
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
