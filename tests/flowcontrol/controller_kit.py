"""A controller with the levels of a server, and what it counts."""

from __future__ import annotations

from twisted.internet.task import Clock

from kapi.flowcontrol import controller as bootstrap
from kapi.flowcontrol.controller import FlowController
from kapi.flowcontrol.metrics import Meter
from kapi.request.user import UserInfo

AUTHENTICATED = "system:authenticated"
ADMIN = UserInfo("admin", groups=("system:masters", AUTHENTICATED))
ALICE = UserInfo("alice", groups=(AUTHENTICATED,))


def controller(total: int = 600, suggested: bool = True) -> FlowController:
    made = FlowController(Clock(), total, Meter())
    if suggested:
        for mandatory in (True, False):
            for obj in bootstrap.levels(mandatory=mandatory):
                obj["metadata"]["uid"] = "level-" + obj["metadata"]["name"]
                made.level_changed("ADDED", obj)
            for obj in bootstrap.schemas(mandatory=mandatory):
                obj["metadata"]["uid"] = "schema-" + obj["metadata"]["name"]
                made.schema_changed("ADDED", obj)
        made.configure()
    return made
