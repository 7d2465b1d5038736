"""The flags that say how objects are deleted (upstream: kubectl ``cmd/delete`` DeleteFlags)."""

from __future__ import annotations

from kapi.kubectl.flags import Flag, Flags
from kapi.kubectl.messages import CommandError
from kapi.machinery.tree import Object

FLAGS = (
    Flag("cascade", no_opt_default="background", default="background"),
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
    """The ``propagationPolicy`` of ``--cascade``.  Raises CommandError."""
    found = _CASCADES.get(flags.get_string("cascade"))
    if found is None:
        raise CommandError(
            f'invalid cascade value ({flags.get_string("cascade")}). Must be "background", "foreground", or "orphan"'
        )
    return found


def delete_options(policy: str, grace: int, dry_run: str) -> Object:
    """DeleteOptions.  ``grace`` is in seconds, below 0 for the object's own; ``dry_run`` is "none", "client" or "server"."""
    options: Object = {"propagationPolicy": policy}
    if grace >= 0:
        options["gracePeriodSeconds"] = grace
    if dry_run == "server":
        options["dryRun"] = ["All"]
    return options
