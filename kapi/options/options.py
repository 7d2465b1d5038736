"""All flags together: parse, complete, validate (upstream: cmd/kube-apiserver ``options``)."""

from __future__ import annotations

from collections.abc import Sequence

from kapi.options.admission import AdmissionOptions
from kapi.options.aggregator import AggregatorOptions
from kapi.options.api_enablement import APIEnablementOptions
from kapi.options.audit import AuditOptions
from kapi.options.authentication import AuthenticationOptions
from kapi.options.authorization import AuthorizationOptions
from kapi.options.controllers import ControllerOptions
from kapi.options.errors import ConfigError
from kapi.options.features import FeatureOptions
from kapi.options.flags import FlagSet, parse, usage
from kapi.options.generic import GenericOptions
from kapi.options.kubelet import KubeletOptions
from kapi.options.logs import LogOptions
from kapi.options.misc import MiscOptions
from kapi.options.processes import ProcessOptions
from kapi.options.serving import ServingOptions
from kapi.options.storage import StorageOptions


class Options:
    """One attribute per group."""

    def __init__(self) -> None:
        self.generic = GenericOptions()
        self.storage = StorageOptions()
        self.serving = ServingOptions()
        self.processes = ProcessOptions()
        self.audit = AuditOptions()
        self.features = FeatureOptions()
        self.authentication = AuthenticationOptions()
        self.authorization = AuthorizationOptions()
        self.api_enablement = APIEnablementOptions()
        self.admission = AdmissionOptions()
        self.aggregator = AggregatorOptions()
        self.controllers = ControllerOptions()
        self.kubelet = KubeletOptions()
        self.misc = MiscOptions()
        self.logs = LogOptions()

    @property
    def groups(self) -> list[FlagSet]:
        return [group for group in vars(self).values() if isinstance(group, FlagSet)]

    @classmethod
    def from_command_line(cls, arguments: Sequence[str]) -> Options:
        """Parsed, completed and validated.  Raises ConfigError with all that is wrong."""
        options = cls()
        errors = parse(options.groups, arguments)
        for group in options.groups:
            group.complete(options)
        for group in options.groups:
            errors.extend(group.validate())
        if errors:
            raise ConfigError(*errors)
        return options


def help_text() -> str:
    return usage(Options().groups)
