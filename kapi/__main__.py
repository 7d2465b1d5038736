"""``python -m kapi`` and the console script: starts quickly, then hands over to ``kapi.tap``.

What a start makes stays for the life of the process, so the garbage collector would only look at it again and again; it is turned
on when the server is ready (``App._tune_interpreter``).
"""

from __future__ import annotations

import gc
import signal
import sys

from kapi.kubectl.commands import COMMANDS


def client_command(arguments: list[str]) -> list[str] | None:
    """The command before its flags, when this is a command line of the client.  Flags of all commands may come first."""
    if arguments[:1] and arguments[0] in COMMANDS:
        return arguments
    if not any(argument in COMMANDS for argument in arguments):
        return None
    from kapi.kubectl.flags import leading

    count = leading(arguments)
    if count < len(arguments) and arguments[count] in COMMANDS:
        return [arguments[count], *arguments[:count], *arguments[count + 1 :]]
    return None


def main() -> None:
    gc.disable()
    command = client_command(sys.argv[1:])
    if command is not None:
        from kapi.kubectl.main import main as run_command

        run_command(command)
    if sys.argv[1:2] == ["envtest-assets"]:
        from kapi.dropin.assets import main as write_assets

        write_assets(sys.argv[2:])
    if sys.argv[1:2] in (["backup"], ["restore"]):
        from kapi.backup.command import main as run_backup

        run_backup(sys.argv[1:])
    # Ctrl-C ends the process on the spot until the reactor takes the signals over: an exception in the middle of an
    # import is a traceback, or is swallowed
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from kapi.tap import main as run

    run()


if __name__ == "__main__":
    main()
