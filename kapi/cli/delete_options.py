"""How objects are deleted, as flags say it (upstream: kubectl ``cmd/delete`` DeleteFlags)."""

from __future__ import annotations

from kapi.cli.flags import Flag, Flags
from kapi.cli.messages import CommandError
from kapi.machinery.tree import Object

FLAGS = (
    Flag("cascade", alone="background", default="background"),
    Flag("force", "bool"),
    Flag("grace-period", "int", default=-1),
    Flag("timeout", "duration", default=0.0),
)
_CASCADES = {
    "background": "Background",
    "foreground": "Foreground",
    "orphan": "Orphan",
    "true": "Background",
    "false": "Orphan",
}


def propagation(flags: Flags) -> str:
    """Raises CommandError."""
    found = _CASCADES.get(flags.get_string("cascade"))
    if found is None:
        raise CommandError(
            f'invalid cascade value ({flags.get_string("cascade")}). Must be "background", "foreground", or "orphan"'
        )
    return found


def delete_options(policy: str, grace: int, how: str) -> Object:
    """``grace`` below 0 is the object's own; ``how`` is the dry run."""
    options: Object = {"propagationPolicy": policy}
    if grace >= 0:
        options["gracePeriodSeconds"] = grace
    if how == "server":
        options["dryRun"] = ["All"]
    return options
