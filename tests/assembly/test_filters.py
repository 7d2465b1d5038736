"""DefaultBuildHandlerChain: which filters there are, and in which order."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.testing import MemoryReactorClock

from kapi.assembly.config import Config, Reloaders
from kapi.assembly.filters import build_handler_chain, flow_control
from kapi.authorization.fixed import AlwaysAllow
from kapi.options.options import Options
from kapi.serving.generic import GenericServer, NotFound
from kapi.serving.pki import Files

#: upstream's order, outermost first; the last one is a part of its handlers
ORDER = [
    "audit_init", "request_info", "received_timestamp", "RequestMetrics", "request_log", "retry_after", "hsts", "cache_control",
    "goaway", "watch_termination", "wait_group", "request_deadline", "warnings", "cors", "authentication", "audit",
    "impersonation", "max_in_flight", "priority_and_fairness", "authorization", "write_deadline",
]  # fmt: skip
OPTIONAL = {"audit_init", "audit", "retry_after", "hsts", "goaway", "cors", "max_in_flight", "priority_and_fairness"}


def chain(*flags: str) -> list[str]:
    store: Any = SimpleNamespace(call=None, info=None, observe=lambda observer: None)
    given = Config(Options.from_command_line(flags), MemoryReactorClock(), Files(Path()), store, "192.0.2.1", 6443)
    config = given.complete()
    storage: Any = SimpleNamespace(caches=SimpleNamespace(find=lambda resource: None))
    server = GenericServer("test", NotFound())
    identity: Any = SimpleNamespace(requests=None, proxy_headers=())
    flow = flow_control(config, storage, server)
    found = build_handler_chain(config, identity, AlwaysAllow(), flow, server.serves_resource)
    return [step.__qualname__.split(".")[0] for step in found]


def test_what_every_server_has_is_in_upstreams_order() -> None:
    assert chain() == [name for name in ORDER if name not in OPTIONAL - {"priority_and_fairness"}]


@pytest.mark.parametrize(
    ("flag", "name"),
    [
        ("--goaway-chance=0.01", "goaway"),
        ("--shutdown-send-retry-after", "retry_after"),
        ("--strict-transport-security-directives=max-age=1", "hsts"),
        ("--cors-allowed-origins=//example(:|$)", "cors"),
    ],
)
def test_flags_add_filters_at_their_place(flag: str, name: str) -> None:
    assert chain(flag) == [each for each in ORDER if each not in OPTIONAL - {"priority_and_fairness", name}]


def test_an_audit_policy_records_before_and_around_what_follows(tmp_path: Any) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text('{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}')
    found = chain(f"--audit-policy-file={policy}", f"--audit-log-path={tmp_path / 'audit.log'}")
    assert found[0] == "audit_init"
    assert found.index("authentication") < found.index("audit") < found.index("impersonation")


def test_without_fairness_there_are_plain_limits_or_none() -> None:
    plain = chain("--enable-priority-and-fairness=false")
    assert "max_in_flight" in plain and "priority_and_fairness" not in plain
    off = "--enable-priority-and-fairness=false"
    none = chain(off, "--max-requests-inflight=0", "--max-mutating-requests-inflight=0")
    assert not {"max_in_flight", "priority_and_fairness"} & set(none)


def test_a_file_that_cannot_be_read_again_keeps_no_other_from_it() -> None:
    reloaders = Reloaders()
    read: list[str] = []

    def broken() -> None:
        raise OSError("gone")

    for reload in (lambda: read.append("one"), broken, lambda: read.append("two")):
        reloaders.add(reload)
    reloaders.run()
    assert read == ["one", "two"]
