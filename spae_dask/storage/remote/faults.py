"""Faults of a store: their kinds, those that are transient, and for remote stores a message with a remedy.

Types, errnos and HTTP statuses tell the kind of any exception (`kind_of`). Message texts count only for the clients of
remote stores (`fault_of`), since a codec's message may hold the same words.
"""

import errno
import re
import socket
import sys
from dataclasses import dataclass
from enum import Enum

from spae_dask.errors import NotFound, SpaeError, StorageError, TransientStorageError
from spae_dask.storage.remote.address import Address


class Kind(Enum):
    """Kinds of faults, by what is to be done: text for the cause, and for the remedy."""

    DENIED = "access was denied"
    BUCKET = "there is no such bucket"
    BUSY = "the service is overloaded or failing"
    REGION = "the bucket is in another region"
    DNS = "the host name is not known"
    TLS = "the server's certificate was not accepted"
    TIMEOUT = "the server did not answer in time"
    CONNECTION = "no connection could be made, or it broke"
    RANGE = "the server does not answer requests for parts of a file"
    OTHER = "the request failed"


CREDENTIALS = {
    "s3": "They are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile (AWS_PROFILE); a public bucket needs "
    "none with AWS_SKIP_SIGNATURE=true.",
    "gs": "They are the file GOOGLE_APPLICATION_CREDENTIALS names; a public bucket needs none with "
    "GOOGLE_SKIP_SIGNATURE=true.",
}
"""Source of the credentials of each scheme."""

REPEATED = (Kind.BUSY, Kind.DNS, Kind.TIMEOUT, Kind.CONNECTION)
"""Kinds that may be gone a moment later."""

REMEDIES = {
    Kind.DENIED: "Check the credentials and their permissions.",
    Kind.BUCKET: "Check the name of the bucket, AWS_ENDPOINT_URL and the region. spae_dask does not create buckets.",
    Kind.BUSY: "Run again later, or with fewer workers.",
    Kind.REGION: "Set AWS_REGION to the bucket's region.",
    Kind.DNS: "Check the address, AWS_ENDPOINT_URL and the network.",
    Kind.TLS: "Check the address, and that this machine trusts the server's certificate authority (SSL_CERT_FILE).",
    Kind.TIMEOUT: "Check the network and the server, then run again.",
    Kind.CONNECTION: "Check the address, AWS_ENDPOINT_URL, the server and the network, then run again.",
    Kind.RANGE: "Download the file, or use a server that supports range requests.",
    Kind.OTHER: "Check the address, the server, and your permissions.",
}

SIGNS: tuple[tuple[str, Kind], ...] = (
    (r"NoSuchBucket", Kind.BUCKET),
    (r"PermanentRedirect|AuthorizationHeaderMalformed|redirect without LOCATION", Kind.REGION),
    (r"dns error|failed to lookup|Name or service not known|Cannot connect to host .*name resolution", Kind.DNS),
    (r"certificate|UnknownIssuer|InvalidCertificate|SSLError|SSL:", Kind.TLS),
    (r"TimedOut|timed out|[Tt]imeout on|kind: Timeout", Kind.TIMEOUT),
    (r"[Rr]ange request not supported|RangeNotSupported", Kind.RANGE),
    (r"Server returned error response|SlowDown|Throttling|TooManyRequests", Kind.BUSY),
    (
        r"kind: (Connect|Request|Interrupted|Decode)|HTTP error|[Cc]onnection|disconnected|payload|IncompleteMessage"
        r"|Cannot connect|error decoding response body|[Ww]rong range",
        Kind.CONNECTION,
    ),
)
"""Texts in the clients' messages that tell the kind of a fault. The first match decides."""

STATUSES = {
    Kind.DENIED: (401, 403, 407),
    Kind.REGION: (301, 307),
    Kind.BUSY: (408, 425, 429, 500, 502, 503, 504),
}
"""HTTP statuses of each kind of fault."""

ERRNOS = {
    Kind.BUSY: (errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.EIO, errno.ESTALE),
    Kind.TIMEOUT: (errno.ETIMEDOUT,),
    Kind.CONNECTION: (
        errno.ECONNABORTED,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.EPIPE,
    ),
}
"""Error numbers of network file systems, and of object stores as fsspec translates them: EBUSY is a throttled
request."""

TYPES = {"PermissionDeniedError": Kind.DENIED, "UnauthenticatedError": Kind.DENIED, "PermissionError": Kind.DENIED}


@dataclass(frozen=True)
class Fault:
    """One failed request.

    Attributes
    ----------
    kind : Kind
    detail : str
        Message of the server or the client, in short and without secrets.
    """

    kind: Kind
    detail: str

    @property
    def transient(self) -> bool:
        """True if the same request may succeed a moment later."""
        return self.kind in REPEATED

    def error(self, address: Address, key: str, done: str, tried: str) -> SpaeError:
        """The error to raise for a request that failed for good: NotFound for a bucket that is not there."""
        what = f"{address}/{key}" if key else str(address)
        at = f" at {address.endpoint_url}" if address.endpoint_url else ""
        hint = ""
        if self.kind is Kind.DENIED:
            unsigned = "The request was not signed, because no credentials were found or requested. "
            hint = f" {unsigned if address.anon else ''}{CREDENTIALS.get(address.scheme, '')}".rstrip()
        kind = NotFound if self.kind is Kind.BUCKET else StorageError
        return kind(
            f"{what}{at} cannot be {done}: {self.kind.value} ({self.detail}{tried}). {REMEDIES[self.kind]}{hint}"
        )


def fault_of(error: BaseException) -> Fault:
    """Return the fault that an exception of a client stands for."""
    text = str(error)
    status = _status_of(error) or int(_first(r"status code: (\d{3})", text) or 0)
    code = _first(r"<Code>(\w{1,64})</Code>", text)
    detail = " ".join(str(part) for part in (f"HTTP {status}" if status else "", code or "") if part)
    kind = kind_of(error) or _kind_of_status(status) or _kind_of_text(error, text)
    if code == "NoSuchBucket":
        kind = Kind.BUCKET
    if code in ("PermanentRedirect", "AuthorizationHeaderMalformed"):
        kind = Kind.REGION
    return Fault(kind, detail or _first(r"kind: (\w+)", text) or type(error).__name__)


def kind_of(error: BaseException) -> Kind | None:
    """The kind of a fault, by what an exception of any library has; None if that does not tell."""
    if (kind := TYPES.get(type(error).__name__)) is not None:
        return kind
    if isinstance(error, TimeoutError):
        return Kind.TIMEOUT
    if (kind := _kind_of_status(_status_of(error))) is not None:
        return kind
    number = error.errno if isinstance(error, OSError) else None
    by_number = next((kind for kind, numbers in ERRNOS.items() if number in numbers), None)
    return by_number or (Kind.CONNECTION if isinstance(error, ConnectionError) else None)


def _status_of(error: BaseException) -> int:
    """Return the status of an error of aiohttp; 0 if it has none."""
    found = getattr(error, "status", None)
    return found if isinstance(found, int) else 0


def _kind_of_status(status: int) -> Kind | None:
    return next((kind for kind, statuses in STATUSES.items() if status in statuses), None)


def _kind_of_text(error: BaseException, text: str) -> Kind:
    text = f"{type(error).__name__} {text}"
    return next((kind for sign, kind in SIGNS if re.search(sign, text)), Kind.OTHER)


def _first(pattern: str, text: str) -> str | None:
    found = re.search(pattern, text)
    return None if found is None else found[1]


def is_transient(error: BaseException) -> bool:
    """Return True if ``error``, or one of its causes, is transient.

    A missing object, a missing permission and bytes that no codec understands are not; nor is a request to an object
    store, which was repeated before its error was raised.
    """
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        if isinstance(each, SpaeError):
            return isinstance(each, TransientStorageError)
        if isinstance(each, FileNotFoundError | PermissionError):
            return False
        if kind_of(each) in REPEATED:
            return True
        each = each.__cause__ or each.__context__
    return False


def read_failed(what: str, remedy: str, error: BaseException) -> StorageError:
    """The error that says ``what``, of the class that tells whether reading again makes sense; if not, the remedy."""
    if is_transient(error):
        return TransientStorageError(f"{what} Run again when the store answers.")
    if isinstance(error, FileNotFoundError):
        return StorageError(f"{what} {not_seen('It')}")
    return StorageError(f"{what} {remedy}")


def not_seen(what: str) -> str:
    """Return the message about data that the reading process does not see."""
    return (
        f"{what} does not exist for {reader()}. Give data at a path or a URL that all workers see as this "
        "process does. Nothing may move the data or unmount them during a run."
    )


def reader() -> str:
    """Name the process that reads: the worker, if it is one, and its host."""
    here, distributed = socket.gethostname(), sys.modules.get("distributed")
    if distributed is not None:
        try:
            return f"the worker {distributed.get_worker().address} of {here}"
        except ValueError:  # it is none
            pass
    return f"a process of {here}"
