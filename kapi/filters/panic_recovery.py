"""An unexpected exception becomes a 500; the connection stays open (upstream: apiserver ``server/filters/wrap.go``).

This is no filter: the runner of the chain calls it for every exception that is not an API error.
"""

from __future__ import annotations

from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.machinery import status
from kapi.machinery.status import StatusError
from kapi.request.context import RequestContext
from kapi.request.info import confidential

log = Logger()
_TEXT = "This request caused apiserver to panic. Look in the logs for details."


def recover(ctx: RequestContext, failure: Failure) -> StatusError:
    """The error to answer with.  The traceback is logged with the audit id; the client does not get it."""
    error, info = failure.value, ctx.info
    if isinstance(error, StatusError):
        return error
    if ctx.audit is not None and error is not None:
        ctx.audit.panicked(error)
    if info is not None and confidential(info.group, info.resource):
        failure = _without_text(failure)
    log.failure("Unexpected error in {method} {path}", failure, method=ctx.method, path=ctx.path, audit_id=ctx.audit_id)
    return status.generic(_TEXT)


def _without_text(failure: Failure) -> Failure:
    """The failure with its traceback, without the texts of the error and its causes, which may quote a Secret."""
    assert failure.value is not None
    kind = type(failure.value).__name__
    return Failure(RuntimeError(f"{kind}, whose text is withheld").with_traceback(failure.getTracebackObject()))
