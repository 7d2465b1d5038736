"""``kapi certificate approve`` and ``deny`` (upstream: kubectl ``cmd/certificates``)."""

from __future__ import annotations

from kapi.kubectl.builder import Builder
from kapi.kubectl.command import Command, Help, Run, load
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import FILENAME, PRINT, shared
from kapi.kubectl.info import Info
from kapi.kubectl.messages import CommandError
from kapi.kubectl.print_flags import printer_for
from kapi.machinery.status import Conflict, NotFound
from kapi.machinery.time import stamp
from kapi.machinery.tree import dig

MAX_RETRIES = 10  # after a conflict
_TYPES = {"approve": ("Approved", "Denied"), "deny": ("Denied", "Approved")}


def _run(name: str) -> Run:
    async def run(factory: Factory, program: str) -> int:
        return await _decide_all(factory, program, name)

    return run


async def _decide_all(factory: Factory, program: str, name: str) -> int:
    flags = factory.flags
    names = flags.arguments
    printer = printer_for(flags, "approved" if name == "approve" else "denied")
    files = flags.get_list("filename")
    if not names and not files:
        raise CommandError("one or more CSRs must be specified as <name> or -f <filename>")
    builder = Builder(factory, program).filenames(files, flags.get_bool("recursive")).flatten().latest()
    result = await builder.resource_names("certificatesigningrequests", names).do()
    found = 0
    async for info in result.visit():
        with result.caught():
            await _decide(info, program, name, flags.get_bool("force"))
            found += 1
            factory.out.write(printer.print(info.object or {}))
    result.finish()
    if not found:
        factory.out.write("No resources found\n")
    return 0


async def _decide(info: Info, program: str, name: str, force: bool) -> None:
    """Adds the condition, unless it is there.  Raises CommandError and StatusError."""
    wanted, other = _TYPES[name]
    mapping = info.mapping
    if (mapping.group, mapping.kind) != ("certificates.k8s.io", "CertificateSigningRequest"):
        raise CommandError(
            f"can only handle CertificateSigningRequest.certificates.k8s.io objects, got {mapping.group_kind}"
        )
    for attempt in range(MAX_RETRIES + 1):
        try:
            current = await info.request(info.client.get()).do()
        except NotFound as error:
            raise CommandError(f"could not find v1 version of {info.name}: {error.message}") from None
        conditions = dig(current, "status", "conditions") or []
        if any(one["type"] == other for one in conditions):
            raise CommandError(f'certificate signing request "{info.name}" is already {other}')
        has = any(one["type"] == wanted for one in conditions)
        if has and not force:
            return
        if not has:
            participle = "approved" if name == "approve" else "denied"
            condition = {"type": wanted, "status": "True", "reason": f"{program.capitalize()}{name.capitalize()}"}
            condition["message"] = f"This CSR was {participle} by {program} certificate {name}."
            conditions = [*conditions, {**condition, "lastUpdateTime": stamp(_now())}]
            current = {**current, "status": {**(current.get("status") or {}), "conditions": conditions}}
        try:
            await info.request(info.client.put()).subresource("approval").body(current).do()
            return
        except Conflict:
            if attempt == MAX_RETRIES:
                raise


def _now() -> float:
    import time

    return time.time()


_FLAGS = (*FILENAME, *PRINT, *shared("force"))


async def run(factory: Factory, program: str) -> int:
    """Shows the help, with any arguments."""
    from kapi.kubectl.help import command_help

    factory.out.write(command_help(program, factory.command, load(factory.command)))
    return 0


HELP = Help(
    "SUBCOMMAND", "Approves or denies certificate signing requests.", ("Approve a request", "certificate approve csr-1")
)
SUBCOMMANDS = (
    Command(
        "approve", "Approve certificate signing requests", _run("approve"),
        Help("(-f FILENAME | NAME ...)", "", ("Approve a request", "certificate approve csr-1")),
        *_FLAGS,
    ),
    Command(
        "deny", "Deny certificate signing requests", _run("deny"),
        Help("(-f FILENAME | NAME ...)", "", ("Deny a request", "certificate deny csr-1")),
        *_FLAGS,
    ),
)  # fmt: skip
