"""What every request passes, in upstream's order (DefaultBuildHandlerChain)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kapi.assembly.identity import Identity
from kapi.assembly.parts import Assembly
from kapi.audit.build import Auditor
from kapi.audit.build import build as build_auditor
from kapi.filters.audit import audit, audit_init
from kapi.filters.authentication import authentication
from kapi.filters.authorization import authorization
from kapi.filters.cache_control import cache_control
from kapi.filters.chain import Filter
from kapi.filters.cors import cors
from kapi.filters.deadline import request_deadline
from kapi.filters.goaway import goaway
from kapi.filters.hsts import hsts
from kapi.filters.impersonation import impersonation
from kapi.filters.max_in_flight import max_in_flight
from kapi.filters.metrics import IdentityMeter
from kapi.filters.priority_and_fairness import priority_and_fairness
from kapi.filters.received import received_timestamp
from kapi.filters.request_info import request_info
from kapi.filters.request_log import request_log
from kapi.filters.shutdown import retry_after, wait_group, watch_termination
from kapi.filters.warnings import warnings
from kapi.flowcontrol.controller import FlowController
from kapi.flowcontrol.dumps import dump_levels, dump_queues, dump_requests
from kapi.flowcontrol.metrics import Meter as FlowMeter
from kapi.flowcontrol.rounds import Rounds
from kapi.options.errors import ConfigError
from kapi.options.options import Options
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.server.generic import GenericServer


def auditor(options: Options, reactor: Any, made: Assembly) -> Auditor | None:
    try:
        return build_auditor(options.audit, reactor, made.metrics.registry)
    except (OSError, ValueError) as error:
        raise ConfigError(f"audit: {error}") from None


def flow_control(options: Options, reactor: Any, made: Assembly, core: GenericServer) -> Filter | None:
    """Priority and fairness, or the plain in-flight limits; None when there is no limit at all."""
    generic = options.generic
    reads, writes = generic.max_requests_inflight, generic.max_mutating_requests_inflight
    if not options.features.enable_priority_and_fairness or not reads + writes:
        return max_in_flight(reads, writes) if reads or writes else None
    made.rounds = made.slices.rounds = Rounds(reactor)
    concurrency = made.metrics.requests.concurrency
    concurrency.limit, concurrency.seconds = reads + writes, reactor.seconds
    controller = FlowController(reactor, reads + writes, FlowMeter(made.metrics.registry), made.rounds)

    async def follow() -> None:
        controller.start(made.registry.client)

    async def stop() -> None:
        controller.stop()

    core.add_post_start_hook("priority-and-fairness-config-consumer", follow, ("priority-and-fairness-filter",))
    core.add_closing_hook("priority-and-fairness-config-consumer", stop)
    _install_dumps(core, controller, reactor)
    caches = made.caches
    return priority_and_fairness(
        controller, caches.find, reactor, default_wait=generic.request_timeout / 4, concurrency=concurrency
    )


def _install_dumps(core: GenericServer, controller: FlowController, reactor: Any) -> None:
    """What waits and runs, for people who look for the reason of a 429."""

    def wall(seconds: float) -> float:
        return time.time() - float(reactor.seconds() - seconds)

    def requests(ctx: RequestContext) -> str:
        return dump_requests(controller, wall, bool(ctx.first("includeRequestDetails")))

    for name, dump in (
        ("dump_priority_levels", lambda ctx: dump_levels(controller)),
        ("dump_queues", lambda ctx: dump_queues(controller)),
        ("dump_requests", requests),
    ):

        def handler(ctx: RequestContext, dump: Callable[[RequestContext], str] = dump) -> Response:
            return Response(200, dump(ctx).encode(), b"text/plain; charset=utf-8")

        core.route(f"/debug/api_priority_and_fairness/{name}", handler, listed=False)


def filters(
    options: Options,
    reactor: Any,
    made: Assembly,
    identity: Identity,
    authorizer: Any,
    flow: Filter | None,
    meter: IdentityMeter,
    serves: Callable[[str, str, str, str], bool],
) -> list[Filter]:
    """``serves`` says which (sub)resources there are."""
    generic, metrics = options.generic, made.metrics
    recorder = made.auditor
    chain: list[Filter] = [
        *([audit_init(recorder)] if recorder is not None else []),
        request_info,
        received_timestamp(reactor.seconds),
        metrics.requests.filter(serves),
        request_log(reactor.seconds, verbose=options.logs.v >= 3),
    ]
    if generic.shutdown_send_retry_after:
        chain.append(retry_after(lambda: made.refusing))
    if generic.strict_transport_security_directives:
        chain.append(hsts(generic.strict_transport_security_directives))
    chain.append(cache_control)
    if generic.goaway_chance:
        chain.append(goaway(generic.goaway_chance))
    chain += [
        watch_termination(made.watches),
        wait_group(made.requests),
        request_deadline(generic.request_timeout),
        warnings,
    ]
    if generic.cors_allowed_origins:
        chain.append(cors(generic.cors_allowed_origins))
    chain.append(authentication(identity.requests, meter.authenticated, identity.proxy_headers))
    constrained = generic.features["ConstrainedImpersonation"]
    later: list[tuple[str, Filter]] = [
        *([("audit", audit(recorder))] if recorder is not None else []),
        (
            "constrainedimpersonation" if constrained else "impersonation",
            impersonation(authorizer, constrained=constrained, meter=meter),
        ),
        *([("priorityandfairness", flow)] if flow is not None else []),
        ("authorization", authorization(authorizer, meter.authorized)),
    ]
    if made.tracing is None:
        return chain + [step for _, step in later]
    return [*chain, made.tracing.filter, *(made.tracing.step(name, step) for name, step in later)]
