"""The filters of every request, in upstream's order (DefaultBuildHandlerChain)."""

from __future__ import annotations

import time
from collections.abc import Callable

from kapi.assembly.config import CompletedConfig
from kapi.assembly.identity import Identity
from kapi.assembly.storage import Storage
from kapi.authorization.interface import Authorizer
from kapi.filters.authentication import authentication
from kapi.filters.authorization import authorization
from kapi.filters.chain import Filter
from kapi.filters.cross_origin import cors, cross_origin
from kapi.filters.deadline import request_deadline, write_deadline
from kapi.filters.goaway import goaway
from kapi.filters.impersonation import impersonation
from kapi.filters.max_in_flight import max_in_flight
from kapi.filters.priority_and_fairness import priority_and_fairness
from kapi.filters.request_info import received_timestamp, request_info
from kapi.filters.request_log import request_log
from kapi.filters.response_headers import cache_control, hsts, warnings
from kapi.filters.shutdown import retry_after, wait_group, watch_termination
from kapi.flowcontrol.controller import FlowController
from kapi.flowcontrol.dumps import dump_levels, dump_queues, dump_requests
from kapi.flowcontrol.metrics import Meter as FlowMeter
from kapi.process.reactor import Reactor
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.serving.generic import GenericServer


def flow_control(config: CompletedConfig, storage: Storage, core: GenericServer) -> Filter | None:
    """Priority and fairness, or the plain in-flight limits; None when there is no limit at all."""
    reactor, generic = config.reactor, config.options.generic
    reads, writes = generic.max_requests_inflight, generic.max_mutating_requests_inflight
    if not config.options.features.enable_priority_and_fairness:
        return max_in_flight(reads, writes) if reads or writes else None
    concurrency = config.metrics.requests.concurrency
    concurrency.limit, concurrency.seconds = reads + writes, reactor.seconds
    controller = FlowController(reactor, reads + writes, FlowMeter(config.metrics.registry), config.turn)

    async def follow() -> None:
        controller.start(storage.registry.client)

    async def stop() -> None:
        controller.stop()

    core.add_post_start_hook("priority-and-fairness-config-consumer", follow, ("priority-and-fairness-filter",))
    core.add_closing_hook("priority-and-fairness-config-consumer", stop)
    _install_dumps(core, controller, reactor)
    wait = generic.request_timeout / 4
    return priority_and_fairness(controller, storage.caches.find, reactor, default_wait=wait, concurrency=concurrency)


def _install_dumps(core: GenericServer, controller: FlowController, reactor: Reactor) -> None:
    """Debug pages that list waiting and running requests, to find the reason of a 429."""

    def wall(seconds: float) -> float:
        return time.time() - float(reactor.seconds() - seconds)

    def requests(ctx: RequestContext) -> str:
        return dump_requests(controller, wall, bool(ctx.first("includeRequestDetails")))

    for name, dump in (
        ("dump_priority_levels", lambda ctx: dump_levels(controller)),
        ("dump_queues", lambda ctx: dump_queues(controller)),
        ("dump_requests", requests),
    ):

        @core.app.route(f"/debug/api_priority_and_fairness/{name}", listed=False)
        def handler(ctx: RequestContext, dump: Callable[[RequestContext], str] = dump) -> Response:
            return Response(200, dump(ctx).encode(), b"text/plain; charset=utf-8")


def build_handler_chain(
    config: CompletedConfig,
    identity: Identity,
    authorizer: Authorizer,
    flow: Filter | None,
    serves: Callable[[str, str, str, str], bool],
) -> list[Filter]:
    """The filters, outermost first.  ``serves(group, version, resource, subresource)``: whether this resource is served."""
    generic, signals = config.options.generic, config.signals
    clock, meter, recorder, tracing = config.reactor.seconds, config.identity_meter, config.auditor, config.tracing
    constrained = generic.features["ConstrainedImpersonation"]
    begin_audit: Filter | None = None
    ask_audit_policy: Filter | None = None
    if recorder is not None:
        from kapi.filters.audit import audit, audit_init  # imported only when it is used

        begin_audit, ask_audit_policy = audit_init(recorder), audit(recorder)

    def traced(name: str, step: Filter) -> Filter:
        return step if tracing is None else tracing.requests.step(name, step)

    chain: list[Filter | None] = [
        begin_audit,
        request_info,
        received_timestamp(clock),
        config.metrics.requests.filter(serves),
        request_log(clock, verbose=config.options.logs.v >= 3),
        retry_after(lambda: signals.refusing) if generic.shutdown_send_retry_after else None,
        hsts(generic.strict_transport_security_directives) if generic.strict_transport_security_directives else None,
        cache_control,
        goaway(generic.goaway_chance) if generic.goaway_chance else None,
        watch_termination(signals.watches),
        wait_group(signals.requests),
        request_deadline(generic.request_timeout),
        warnings,
        cors(generic.cors_allowed_origins) if generic.cors_allowed_origins else None,
        authentication(
            identity.requests,
            meter.authenticated,
            identity.proxy_headers,
            config.authorization.settings.public,
            mitigation=generic.features["UnauthenticatedHTTP2DOSMitigation"],
        ),
        cross_origin() if config.options.features.enable_console else None,
        tracing.requests.filter if tracing is not None else None,
        traced("audit", ask_audit_policy) if ask_audit_policy is not None else None,
        traced(
            "constrainedimpersonation" if constrained else "impersonation",
            impersonation(authorizer, constrained=constrained, meter=meter),
        ),
        traced("priorityandfairness", flow) if flow is not None else None,
        traced("authorization", authorization(authorizer, meter.authorized)),
        write_deadline(clock),
    ]
    return [step for step in chain if step is not None]
