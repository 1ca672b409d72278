"""What an object store's error means: is it gone, taken, worth another try, or final?

obstore gives most failures one class and tells them apart by text, so this reads the text; and it
is the one place that does. The text itself goes no further: it quotes server answers and request
URLs, in which keys and signatures stand. Only a status, the server's error code and our own words
leave this module.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto


class Kind(Enum):
    """What to do about a failure."""

    MISSING = auto()
    TAKEN = auto()
    BEYOND_END = auto()
    TRANSIENT = auto()
    FINAL = auto()


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed request, in words that are safe to show."""

    kind: Kind
    reason: str
    status: int | None = None
    unsent: bool = False  # the request surely never reached the server, so it had no effect
    hint: str | None = None


_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z0-9]{1,64})</Code>|\"reason\": ?\"([A-Za-z0-9]{1,64})\"")
_TRANSPORT = re.compile(r"HttpError \{\s*kind: (\w+)")
_NO_CONTAINER = frozenset({"NoSuchBucket", "ContainerNotFound", "FilesystemNotFound"})
_METADATA_SERVICES = ("169.254.169.254", "metadata.google.internal", "169.254.170.2")
_TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
_TRANSPORT_WORDS = {
    "Connect": "no connection could be made",
    "Timeout": "no answer came in time",
    "Interrupted": "the answer broke off",
    "Request": "the connection broke",
    "Decode": "the answer could not be understood",
}
_NO_CREDENTIALS = (
    "Pass them as options or set them in the environment; for a public bucket, skip_signature=true."
)
_CREDENTIALS = "Check the access key, secret and session token, and that they may do this."


def classify(error: Exception) -> Failure:
    """What ``error``, raised by obstore, means."""
    # Imported here: executors work on local files and need no obstore.
    from obstore import exceptions

    text = str(error)
    status = _status(text)
    code = next((one or other for one, other in _CODE.findall(text)), None)
    answer = f"HTTP {status}" + (f" {code}" if code else "") if status else ""

    if code in _NO_CONTAINER:
        return Failure(Kind.FINAL, "the bucket or container does not exist", status)
    if isinstance(error, FileNotFoundError):
        return Failure(Kind.MISSING, "it is not there", status)
    if isinstance(
        error, (exceptions.AlreadyExistsError, exceptions.PreconditionError, exceptions.NotModifiedError)
    ):
        return Failure(Kind.TAKEN, f"the store reports a conflict ({answer or 'the name is taken'})", status)
    if isinstance(error, (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)):
        return Failure(Kind.FINAL, f"access was refused ({answer})", status, hint=_CREDENTIALS)
    if isinstance(error, (TimeoutError, ConnectionError)):
        return Failure(Kind.TRANSIENT, "the connection broke")
    if isinstance(error, exceptions.NotSupportedError):
        return Failure(Kind.FINAL, "this store does not offer that operation", status)
    if isinstance(error, (ValueError, exceptions.InvalidPathError)):
        return Failure(Kind.FINAL, "object stores take no such name (control characters, for one)")
    if isinstance(error, exceptions.GenericError):
        return _generic(text, status, answer)
    return Failure(Kind.FINAL, f"the client failed with {type(error).__name__}", status)


def _status(text: str) -> int | None:
    found = _STATUS.search(text)
    return int(found[1]) if found else None


def _generic(text: str, status: int | None, answer: str) -> Failure:
    if any(service in text for service in _METADATA_SERVICES):
        return Failure(Kind.FINAL, "no credentials were found", hint=_NO_CREDENTIALS)
    if status == 416 or "StartTooLarge" in text:
        return Failure(Kind.BEYOND_END, "the range starts after the end", status)
    if status in (401, 403):
        return Failure(Kind.FINAL, f"access was refused ({answer})", status, hint=_CREDENTIALS)
    if status == 501:
        return Failure(Kind.FINAL, "this store does not offer that operation (HTTP 501)", status)
    if status is not None:
        kind = Kind.TRANSIENT if status in _TRANSIENT_STATUS else Kind.FINAL
        return Failure(kind, f"the store answered {answer}", status)
    if "BareRedirect" in text:
        return Failure(Kind.FINAL, "the store answered with a redirect to nowhere", hint="Check the region.")
    if "BadScheme" in text:
        return Failure(Kind.FINAL, "the endpoint is not https", hint="Pass allow_http=true if that is meant.")
    found = _TRANSPORT.search(text)
    if found and found[1] in _TRANSPORT_WORDS:
        unsent = found[1] == "Connect"
        return Failure(Kind.TRANSIENT, _TRANSPORT_WORDS[found[1]], unsent=unsent)
    return Failure(Kind.FINAL, "the client gave no reason that can be shown")
