"""All functions and constants that expressions in Kubernetes may use (upstream: apiserver ``cel/environment``, base.go)."""

from __future__ import annotations

from kapi.cel.functions import Overload
from kapi.cel.library.authorizer import AUTHORIZER
from kapi.cel.library.formats import FORMAT_CONSTANTS, FORMATS
from kapi.cel.library.lists import LISTS, SETS
from kapi.cel.library.network import NETWORK, NETWORK_CONSTANTS
from kapi.cel.library.quantity import QUANTITIES
from kapi.cel.library.semver import SEMVERS
from kapi.cel.library.strings import REGEX, STRINGS
from kapi.cel.library.urls import URLS
from kapi.cel.types import CelType, Value

KUBERNETES: list[Overload] = [
    *AUTHORIZER,
    *FORMATS,
    *LISTS,
    *NETWORK,
    *QUANTITIES,
    *REGEX,
    *SEMVERS,
    *SETS,
    *STRINGS,
    *URLS,
]
KUBERNETES_CONSTANTS: dict[str, tuple[CelType, Value]] = {**NETWORK_CONSTANTS, **FORMAT_CONSTANTS}
