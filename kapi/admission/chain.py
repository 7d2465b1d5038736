"""The chain of enabled plugins: order, metrics, reinvocation, and protection of ``managedFields``.

A mutating pass runs every plugin in order; when a webhook has changed the object after other plugins had seen it, all plugins
run once more.  Plugins that do not apply to a resource are not called, but metrics count them as passed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from kapi.admission import metrics
from kapi.admission.catalogue import enabled_names, make_plugins
from kapi.admission.initializer import Initializer
from kapi.admission.interface import AdmissionChain, Attributes, Pass, Plugin, Reinvocation
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Tree
from kapi.schema.managedfields_entries import InvalidManagedFields, decode

_perf = time.perf_counter


class Chain(AdmissionChain):
    """All enabled plugins; ``meter`` may be None in tests."""

    def __init__(self, plugins: list[Plugin], meter: metrics.Meter | None = None) -> None:
        super().__init__(plugins)
        self.meter = meter

    async def admit(self, attributes: Attributes) -> None:
        """Lets every plugin change the object.  Raises StatusError when one refuses."""
        found = self.pass_of("admit", attributes)
        if not found.plugins:
            return
        reinvocation = attributes.reinvocation = Reinvocation()
        before = _managed_fields(attributes)
        start = _perf()
        rejected = True
        try:
            await self._admit_once(found, attributes)
            if reinvocation.requested:
                reinvocation.again = True
                await self._admit_once(found, attributes)
            rejected = False
        finally:
            if self.meter is not None:
                self.meter.step("admit", attributes.operation, rejected, _perf() - start)
        if _managed_fields(attributes) is not before:
            _keep_readable(attributes, before)

    async def _admit_once(self, found: Pass, attributes: Attributes) -> None:
        marks = [_perf()]
        rejected = True
        try:
            for plugin in found.called:
                waiting = plugin.admit(attributes)
                if waiting is not None:
                    await waiting
                marks.append(_perf())
            rejected = False
        finally:
            if self.meter is not None:
                self.meter.controllers(found, rejected, marks)

    async def validate(self, attributes: Attributes) -> None:
        """Lets every plugin refuse the object.  Raises StatusError."""
        found = self.pass_of("validate", attributes)
        marks = [_perf()]
        rejected = True
        try:
            for plugin in found.called:
                waiting = plugin.validate(attributes)
                if waiting is not None:
                    await waiting
                marks.append(_perf())
            rejected = False
        finally:
            if self.meter is not None:
                self.meter.controllers(found, rejected, marks)
                self.meter.step("validate", attributes.operation, rejected, _perf() - marks[0])


def _managed_fields(attributes: Attributes) -> Tree:
    return None if attributes.obj is None else (attributes.obj.get("metadata") or {}).get("managedFields")


def _keep_readable(attributes: Attributes, before: object) -> None:
    """Restores ``managedFields`` that a plugin or webhook left in a form that cannot be read."""
    try:
        decode(_managed_fields(attributes))
    except (InvalidManagedFields, AttributeError, TypeError) as error:
        assert attributes.obj is not None
        if before is None:
            del attributes.obj["metadata"]["managedFields"]
        else:
            attributes.obj["metadata"]["managedFields"] = before
        attributes.warn(
            ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated "
            f"mutating admission controller; please fix your requests: {error}"
        )


def build_chain(
    initializer: Initializer,
    *,
    enable: Iterable[str] = (),
    disable: Iterable[str] = (),
    configurations: Mapping[str, Tree] | None = None,
    meter: metrics.Meter | None = None,
) -> Chain:
    """The chain for the flags.  Raises UnknownPlugin, and ValueError for a configuration that cannot be read."""
    return Chain(make_plugins(enabled_names(enable, disable), initializer, configurations or {}), meter)


__all__ = ["Chain", "Reinvocation", "StatusError", "build_chain"]
