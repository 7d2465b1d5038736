"""``--redis-servers-overrides``: which resource is kept where, and what is no answer to that."""

from __future__ import annotations

from pathlib import Path

import pytest

from kapi.options.errors import ConfigError
from kapi.options.options import Options

_FLAG = "--redis-servers-overrides"
_FORMAT = f"{_FLAG} invalid, must be of format: group/resource#servers, where servers are URLs, semicolon separated"
_SENTINELS = "redis+sentinel://a:1,b:2/m"
_UNKNOWN = "no such resource is built in; custom resources, their definitions and APIServices are in the store of --redis-servers"


def overrides(*flags: str) -> dict[str, str]:
    found = Options.from_command_line(list(flags)).storage.overrides
    return {str(resource): str(address) for resource, address in found.items()}


@pytest.mark.parametrize(
    ("flags", "kept"),
    [
        ([], {}),
        (["/events#redis://h:1"], {"events": "redis://h:1"}),
        (["events.k8s.io/events#redis://h:1"], {"events": "redis://h:1"}),
        (["/events#redis://h:1,events.k8s.io/events#redis://h:1"], {"events": "redis://h:1"}),
        (["coordination.k8s.io/leases#unix:///s"], {"leases.coordination.k8s.io": "unix:///s"}),
        (["/pods#redis://h:1", "/nodes#redis://h:2"], {"pods": "redis://h:1", "nodes": "redis://h:2"}),
        ([f"/pods#{_SENTINELS},/nodes#redis://h:2"], {"pods": _SENTINELS, "nodes": "redis://h:2"}),
        (["/pods#redis+sentinel://a:1/m;redis+sentinel://b:2/m"], {"pods": _SENTINELS}),
        (
            ["batch/*#redis://h:1,batch/jobs#redis://h:2"],
            {"cronjobs.batch": "redis://h:1", "jobs.batch": "redis://h:2"},
        ),
    ],
)
def test_a_resource_is_kept_where_its_entry_says(flags: list[str], kept: dict[str, str]) -> None:
    assert overrides(*(f"--redis-servers-overrides={text}" for text in flags)) == kept


def test_what_an_entry_leaves_in_the_main_store_is_no_override() -> None:
    flags = ("--redis-servers=redis://h", "--redis-servers-overrides=batch/*#redis://h:1,batch/jobs#redis://h:6379/0")
    assert overrides(*flags) == {"cronjobs.batch": "redis://h:1"}


def test_replicas_confirm_in_other_stores_than_an_embedded_one() -> None:
    assert overrides("--redis-servers-overrides=/pods#redis://h:1", "--redis-min-replicas=1")
    with pytest.raises(ConfigError, match="the embedded store has no replicas"):
        overrides("--redis-min-replicas=1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("/events", f'{_FORMAT}: "/events"'),
        ("events#redis://h", f'{_FORMAT}: "events"'),
        ("/events#", f'{_FORMAT}: "/events"'),
        ("/#redis://h", f'{_FORMAT}: "/"'),
        ("a/b/c#redis://h", f'{_FORMAT}: "a/b/c"'),
        ("/events#redis://h#x", f'{_FORMAT}: "/events"'),
        ("", f'{_FORMAT}: ""'),
        ("/eventz#redis://h", f"--redis-servers-overrides: /eventz: {_UNKNOWN}"),
        ("example.com/*#redis://h", f"--redis-servers-overrides: example.com/*: {_UNKNOWN}"),
        ("example.com/widgets#redis://h", f"--redis-servers-overrides: example.com/widgets: {_UNKNOWN}"),
        ("/componentstatuses#redis://h", f"--redis-servers-overrides: /componentstatuses: {_UNKNOWN}"),
        (
            "apiextensions.k8s.io/customresourcedefinitions#redis://h",
            f"--redis-servers-overrides: apiextensions.k8s.io/customresourcedefinitions: {_UNKNOWN}",
        ),
        ("/events#redis://h,/events#redis://h", "--redis-servers-overrides: /events: it is given twice"),
        (
            "/events#redis://h,events.k8s.io/events#redis://g",
            "--redis-servers-overrides: events.k8s.io/events: it is kept as events, which is given another store",
        ),
        (
            "/events#redis://g;redis://h",
            "--redis-servers-overrides: /events: several URLs must be Sentinels of one service: a resource is kept in one store",
        ),
        (
            "/events#redis+sentinel://a/m;redis+sentinel://b/n",
            "--redis-servers-overrides: /events: several URLs must be Sentinels of one service: a resource is kept in one store",
        ),
        (
            "/events#redis://",
            "--redis-servers-overrides: /events: the host is missing",
        ),
    ],
)
def test_what_no_store_can_be_found_by_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        overrides("--redis-servers-overrides", f"{text},") if not text else overrides("--redis-servers-overrides", text)
    assert caught.value.messages[0] == message


def test_all_that_is_wrong_is_told_at_once_and_no_password(tmp_path: Path) -> None:
    text = "/events#redis://u:secret@h;redis://u:secret@g,/x#redis://h"
    with pytest.raises(ConfigError) as caught:
        Options.from_command_line(["--event-ttl=0", f"--redis-servers-overrides={text}"])
    assert len(caught.value.messages) == 3 and "secret" not in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        Options.from_command_line(["--redis-servers-overrides=redis://u:secret@h:6379"])
    assert list(caught.value.messages) == [_FORMAT]
    options = Options.from_command_line(["--redis-servers-overrides=/events#redis://u:secret@h:6379/1"])
    assert dict(options.settings())["redis-servers-overrides"] == "[/events#redis://u:***@h:6379/1]"
