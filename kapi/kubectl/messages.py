"""Error messages of commands, on stderr (upstream: kubectl ``cmd/util`` CheckErr)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kapi.client.config_error import ConfigErrors, InvalidConfig, LoadErrors, NoConnection
from kapi.client.errors import ConfigError, ConnectionFailed, DeadlineExceeded, RequestTimeout, StatusError
from kapi.machinery.golang import quote

if TYPE_CHECKING:
    from twisted.internet.error import CannotListenError

#: where kubectl registers the types that it knows, as its messages have it
SCHEME = "pkg/scheme/scheme.go:28"
STDIN_TWICE = "standard input cannot be used for multiple arguments"


class CommandError(Exception):
    """An error message for the user.  ``usage``: the command whose help it points to; ``plain``: without "error: " before it.

    ``output`` is printed to stdout before it.
    """

    def __init__(self, message: str, *, usage: str = "", code: int = 1, plain: bool = False, output: str = "") -> None:
        super().__init__(message)
        self.usage, self.code, self.plain, self.output = usage, code, plain, output


class NotRegistered(CommandError):
    """For an object of a kind outside of Kubernetes' own API, of ``scheme`` as Go names it."""

    def __init__(self, kind: str, version: str, scheme: str) -> None:
        super().__init__(f'no kind "{kind}" is registered for version "{version}" in scheme "{scheme}"')


class Aggregate(Exception):
    """Several errors, one in each line."""

    def __init__(self, errors: Iterable[BaseException]) -> None:
        self.errors: list[BaseException] = []
        for error in errors:
            self.errors += error.errors if type(error) is Aggregate else [error]
        self.output = "".join(getattr(error, "output", "") for error in self.errors)
        super().__init__("; ".join(str(error) for error in self.errors))


class OtherNamespace(CommandError):
    """An object has another namespace than the command line: an error of the object, not in reading it."""

    def __init__(self, found: str, wanted: str) -> None:
        super().__init__(
            f'the namespace from the provided object "{found}" does not match the namespace "{wanted}". '
            f"You must pass '--namespace={found}' to perform this operation."
        )


class ListErrors(Aggregate):
    """The errors of the items of a list in a file: beside other errors they are one, in one line."""

    def __str__(self) -> str:
        texts = list(dict.fromkeys(_texts(self.errors)))
        return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _texts(errors: Iterable[BaseException]) -> Iterator[str]:
    for error in errors:
        if isinstance(error, ListErrors):
            yield from _texts(error.errors)
        else:
            yield str(getattr(error, "message", "") or error)


def aggregate(errors: list[BaseException]) -> None:
    """Raises an Aggregate of the errors, if there are any."""
    if errors:
        raise Aggregate(errors)


def raise_errors(errors: list[BaseException]) -> None:
    """Raises the errors, if there are any; a single one as it is."""
    if len(errors) == 1:
        raise errors[0]
    aggregate(errors)


def standard_message(error: BaseException, host: str) -> str | None:
    """The message for an error of the server or of the connection to it; None for others."""
    if isinstance(error, StatusError):
        if error.reason == "Unauthorized":
            return f"error: You must be logged in to the server ({error.message})"
        if error.reason:
            return f"Error from server ({error.reason}): {error.message}"
        return f"Error from server: {error.message}"
    if isinstance(error, ConnectionFailed):
        if "onnection refused" in str(error) or "refused by other side" in str(error):
            place = urlsplit(host).netloc.rpartition("@")[2].removesuffix(":") or host
            return f"The connection to the server {place} was refused - did you specify the right host or port?"
        if error.__cause__ is None:
            return f"Unable to connect to the server: {error}"
        from kapi.wire.network_errors import describe

        server = urlsplit(host)
        why = describe(error.__cause__, server.hostname or host, server.port or 443)
        return f"Unable to connect to the server: {why}"
    if isinstance(error, RequestTimeout) and not isinstance(error, DeadlineExceeded):
        return "Unable to connect to the server: net/http: request canceled (Client.Timeout exceeded while awaiting headers)"
    return None


def inner_text(error: BaseException, host: str) -> str:
    """The text of an error of the server, or of the request to ``host``, as part of another's."""
    if isinstance(error, StatusError):
        return error.message
    if not isinstance(error, ConnectionFailed) or error.__cause__ is None:
        return str(error)
    path, mark, query = error.target.partition("?")
    from kapi.wire.network_errors import describe_request

    url = f"{host.rstrip('/')}{path}{mark}{'&'.join(sorted(query.split('&')))}"
    return describe_request(error.__cause__, error.method, url)


def message_of(error: BaseException, host: str = "") -> str:
    """The text for stderr, with its line end."""
    if isinstance(error, Aggregate):
        first = error.errors[0]
        if len(error.errors) == 1 and isinstance(first, InvalidConfig):
            return f"Error in configuration: {first.why}\n"
        if len(error.errors) == 1 and (_is_invalid(first) or isinstance(first, ConfigError)):
            return message_of(first, host)
        return "".join(f"{standard_message(one, host) or _plain(one)}\n" for one in error.errors)
    if isinstance(error, StatusError) and _is_invalid(error):
        return _invalid(error)
    if isinstance(error, CommandError) and error.usage:
        return f"error: {error}\nSee '{error.usage} -h' for help and examples\n"
    if isinstance(error, ConfigErrors):
        return "Error in configuration: \n" + "".join(f"* {one.why}\n" for one in error.errors)
    if isinstance(error, LoadErrors):
        return "".join(f"{one.why}\n" for one in error.errors)
    if isinstance(error, NoConnection):
        return f"Unable to connect to the server: {error.why}\n"
    if isinstance(error, ConfigError):
        invalid = isinstance(error, InvalidConfig) and error.field == "current-context"
        return f"{'Error in configuration' if invalid else 'error'}: {error.why}\n"
    standard = standard_message(error, host)
    if standard is not None:
        return standard + "\n"
    text = str(error) or type(error).__name__
    if not text.startswith("error: ") and not (isinstance(error, CommandError) and error.plain):
        text = f"error: {text}"
    return text if text.endswith("\n") else text + "\n"


def _plain(error: BaseException) -> str:
    if isinstance(error, InvalidConfig):
        return f"invalid configuration: {error.why}"
    return error.why if isinstance(error, ConfigError) else str(error)


def listen_problem(where: str, error: CannotListenError) -> str:
    """The text for a place at which a command cannot listen."""
    why = str(getattr(error.socketError, "strerror", "") or error.socketError).lower()
    return f"listen {where}: bind: {why}"


def _is_invalid(error: BaseException) -> bool:
    return isinstance(error, StatusError) and error.reason == "Invalid"


def _invalid(error: StatusError) -> str:
    details = error.details
    start = "The request is invalid"
    if details is None:
        return f"{start}: {error.message}\n" if error.message else f"{start}\n"
    causes = details.get("causes") or []
    if details.get("kind") or details.get("name"):
        start = f"The {details.get('kind', '')} {quote(details.get('name', ''))} is invalid"
    elif error.message and not causes:
        start += f": {error.message}"
    if not causes:
        return f"{start}\n"
    texts = list(dict.fromkeys(f"{cause.get('field', '')}: {cause.get('message', '')}" for cause in causes))
    if len(texts) == 1:
        return f"{start}: {texts[0]}\n"
    return f"{start}: \n" + "".join(f"* {text}\n" for text in texts)
