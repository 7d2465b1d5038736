"""Log flags (upstream: component-base ``logs/api/v1``)."""

from __future__ import annotations

from fnmatch import fnmatchcase

from kapi.machinery.golang import NumberError, parse_uint
from kapi.options.flags import FlagError, FlagSet, duration, integer, string, switch, value

_STDERR = "lines are written at once"
_SPLIT = "Write errors to stderr and the rest to stdout."
_FORMATS = ("text", "json")


def module_levels(text: str) -> list[tuple[str, int]]:
    """``pattern=N,...`` of module names; raises FlagError."""
    found = []
    for item in filter(None, text.split(",")):
        pattern, mark, level = item.partition("=")
        try:
            if not mark or not pattern:
                raise NumberError
            found.append((pattern, parse_uint(level, 31)))
        except NumberError:
            raise FlagError(f"syntax error: expect comma-separated list of filename=N, got {item}") from None
    return found


class LogOptions(FlagSet):
    title = "Logs"

    v = value(integer, 0, "Number for the log level verbosity: 0 warnings, 2 info, 4 debug.", short="v", type="Level")
    vmodule: list[tuple[str, int]] = value(
        module_levels,
        [],
        "Verbosity of single modules, by the last part of their names, as in reload*=4.",
        type="pattern=N,...",
    )
    logging_format = value(string, "text", "text, or json with the keys of klog.")
    log_text_split_stream = switch(False, _SPLIT)
    log_json_split_stream = switch(False, _SPLIT)

    def add(self) -> None:
        self.declare(
            "log-flush-frequency", value(duration, 5.0, "Longest time until lines are written.", inert=_STDERR)
        )
        for name in _FORMATS:
            self.declare(
                f"log-{name}-info-buffer-size",
                value(string, "", "Bytes of buffered lines.", type="quantity", inert=_STDERR),
            )

    def validate(self) -> list[str]:
        errors = [] if self.v >= 0 else ["-v must not be negative"]
        if self.logging_format not in _FORMATS:
            errors.append(f'--logging-format: Invalid value: "{self.logging_format}": Unsupported log format')
        return errors

    @property
    def split(self) -> bool:
        return bool(self.log_json_split_stream if self.logging_format == "json" else self.log_text_split_stream)

    def verbosity(self, module: str) -> int:
        """The verbosity of a logger; the first matching pattern wins."""
        name = module.rpartition(".")[2]
        found: int = next((level for pattern, level in self.vmodule if fnmatchcase(name, pattern)), self.v)
        return found
