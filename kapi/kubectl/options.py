"""``kapi options`` (upstream: kubectl ``cmd/options``): the flags that all client commands have."""

from __future__ import annotations

from kapi.kubectl.command import Help
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import GLOBAL
from kapi.kubectl.help import flag_lines

FLAGS = ()
HELP = Help("", "Lists the flags that may be given with each client command.", (("Show them", "options"),))


async def run(factory: Factory, program: str) -> int:
    factory.out.write("These flags may be given with each client command:\n\n" + flag_lines(GLOBAL))
    return 0
