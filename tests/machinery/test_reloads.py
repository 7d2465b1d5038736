"""Metrics of configuration files that are read again."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from kapi.machinery.reloads import Reloads


def test_what_is_in_force_and_when_it_was_read() -> None:
    registry = CollectorRegistry()
    times = iter((10.0, 20.0, 30.0))
    reloads = Reloads("manifest_admission", registry, lambda: next(times))
    reloads.applied(b"first", "p")
    reloads.applied(b"other", "q")
    reloads.succeeded(b"second", "p")
    reloads.failed("p")
    reloads.succeeded(b"third", "p")
    found = {
        (
            sample.name.removeprefix("apiserver_manifest_admission_config_controller_"),
            sample.labels.get("status", ""),
        ): sample.value
        for family in registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created") and "last_config_info" not in sample.name
    }
    assert found == {
        ("automatic_reloads_total", "success"): 2.0,
        ("automatic_reloads_total", "failure"): 1.0,
        ("automatic_reload_last_timestamp_seconds", "success"): 30.0,
        ("automatic_reload_last_timestamp_seconds", "failure"): 20.0,
    }
    infos = [key[0] for key in reloads._info.rows]
    assert (sorted(infos), set(reloads._info.rows.values())) == (["p", "q"], {1})
    Reloads("manifest_admission").failed("p")
