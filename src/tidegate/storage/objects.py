"""Tables in object stores: S3, Google Cloud Storage, Azure, through obstore.

Put-if-absent is the store's own conditional put, sent by a client that never repeats a request by
itself: a repeat would be refused because of our own success and look like another writer. So the
repeats are made here, where it is known whether an earlier attempt may have arrived. Listings are
checked to come in order, or sorted. Nothing an error or a log line shows carries a credential.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import count, islice
from typing import Any, NoReturn, Protocol, TypeVar

import pyarrow as pa

from tidegate.errors import FileMissingError, NameTakenError, StorageError
from tidegate.storage.failures import Failure, Kind, classify
from tidegate.storage.names import check_directory, check_name, check_range
from tidegate.storage.ranges import RangeFile
from tidegate.storage.retry import RetryPolicy
from tidegate.storage.store import Buffer, FileInfo

logger = logging.getLogger(__name__)

WHOLE = 8 << 20  # up to here a file is fetched in one request rather than in ranges
PAGE = 1000  # what S3, GCS and Azure answer in one list request, and delete in one

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND = timedelta(milliseconds=1)
_T = TypeVar("_T")


class Client(Protocol):
    """What is used of an obstore store."""

    def put(self, path: str, file: Any, *, mode: Any = ...) -> Any: ...
    def get(self, path: str) -> Any: ...
    def get_range(self, path: str, *, start: int, length: int) -> Any: ...
    def head(self, path: str) -> Any: ...
    def list(self, prefix: str | None = ..., *, offset: str | None = ..., chunk_size: int = ...) -> Any: ...
    def list_with_delimiter(self, prefix: str | None = ...) -> Any: ...
    def delete(self, paths: str | Sequence[str]) -> None: ...


class ObjectStore:
    """Objects below one prefix of a bucket or container.

    ``client`` may repeat requests by itself, ``once`` must not. ``ordered`` says whether the store
    lists in order of UTF-8 bytes; where it does not, a listing is read to its end and sorted.
    """

    def __init__(
        self,
        client: Client,
        *,
        url: str,
        once: Client | None = None,
        ordered: bool = True,
        retry: RetryPolicy | None = None,
        sleep: Callable[[float], None] = time.sleep,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._once = once if once is not None else client
        self._url = url
        self._ordered = ordered
        self._retry = retry or RetryPolicy()
        self._sleep = sleep
        self._rng = rng

    @property
    def url(self) -> str:
        """The root, as opened."""
        return self._url

    def __repr__(self) -> str:
        return f"ObjectStore({self._url!r})"

    # ------------------------------------------------------------------ reading

    def get(self, name: str) -> bytes:
        """All bytes of ``name``."""
        path = check_name(name, self._url)
        return self._attempt("read", name, lambda: bytes(self._client.get(path).bytes()))

    def get_range(self, name: str, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset``, fewer if the file ends before."""
        path = check_name(name, self._url)
        check_range(name, offset, length, self._url)
        if length == 0:
            self.head(name)  # no store takes an empty range, but a missing file is missing all the same
            return b""
        return self._attempt(
            "read", name, lambda: bytes(self._client.get_range(path, start=offset, length=length)), beyond=b""
        )

    def open_input(self, name: str) -> pa.NativeFile:
        """The bytes of a small file, ranges of a large one."""
        path = check_name(name, self._url)

        def fetch() -> bytes | int:
            answer = self._client.get(path)
            size = int(answer.meta["size"])
            return bytes(answer.bytes()) if size <= WHOLE else size

        found = self._attempt("read", name, fetch)
        if isinstance(found, bytes):
            return pa.BufferReader(found)
        return pa.PythonFile(
            RangeFile(lambda offset, length: self.get_range(name, offset, length), found), mode="r"
        )

    def head(self, name: str) -> FileInfo:
        """Size and time of ``name``."""
        path = check_name(name, self._url)
        found = self._attempt("look at", name, lambda: self._client.head(path))
        return FileInfo(name, int(found["size"]), _milliseconds(found["last_modified"]))

    # ------------------------------------------------------------------ writing

    def put(self, name: str, data: Buffer) -> None:
        """Write or replace ``name``."""
        path, body = check_name(name, self._url), memoryview(data).cast("B")
        self._attempt("write", name, lambda: self._client.put(path, body, mode="overwrite"))

    def put_if_absent(self, name: str, data: Buffer, *, durable: bool = True) -> None:
        """Write ``name`` unless it is there.

        An attempt that ended without an answer may have succeeded. Only after such a one is a name
        that is taken compared with our bytes; identical bytes from another writer are not ours.
        """
        path, body = check_name(name, self._url), memoryview(data).cast("B")
        unsure = False
        for attempt in count(1):
            logger.debug("write if absent %s/%s, attempt %d", self._url, name, attempt)
            try:
                self._once.put(path, body, mode="create")
                return
            except Exception as error:
                failure = classify(error)
            if failure.kind is Kind.TAKEN:
                if self._settled(name, body, failure, unsure):
                    return
                # Neither written nor there: S3 answers 409 while another writer's put is under way.
                failure = Failure(Kind.TRANSIENT, "another writer was at work on that name", failure.status)
            elif failure.kind is Kind.TRANSIENT:
                unsure = unsure or not failure.unsent
            self._pause_or_give_up("write", name, failure, attempt, unsure=unsure)

    def _settled(self, name: str, body: memoryview, failure: Failure, unsure: bool) -> bool:
        """True if the name holds our own write, False if nothing is there; raises if it is another's."""
        try:
            if unsure:
                if self.get(name) == body:
                    logger.info("%s/%s was written by an attempt that got no answer", self._url, name)
                    return True
            elif failure.status == 409:  # Azure's word for "taken", S3's for "ask again"
                self.head(name)
        except FileMissingError:
            return False
        raise NameTakenError(f"{name!r} is there already.", table=self._url, file=name)

    def delete(self, names: Iterable[str]) -> None:
        """Delete every name, in bulk where the store can."""
        remaining = iter(names)
        while batch := [check_name(name, self._url) for name in islice(remaining, PAGE)]:
            try:
                self._attempt("delete", batch[0], partial(self._client.delete, batch))
            except FileMissingError:
                # Stores without a bulk delete stop at the first name that is not there.
                for path in batch:
                    self._delete_one(path)

    def _delete_one(self, path: str) -> None:
        try:
            self._attempt("delete", path, lambda: self._client.delete(path))
        except FileMissingError:
            return

    # ------------------------------------------------------------------ listing

    def list_from(self, directory: str, start: str = "", *, recursive: bool = False) -> Iterator[FileInfo]:
        """Files below ``directory`` from ``start`` on, page by page."""
        directory = check_directory(directory, self._url)
        logger.debug("list %s in %r from %r", self._url, directory, start)
        return self._in_order(directory, start, recursive)

    def folders(self, directory: str) -> list[FileInfo]:
        """The prefixes directly below ``directory``; none where listings come in no order to divide."""
        directory = check_directory(directory, self._url)
        if not self._ordered:
            return []
        found = self._attempt("list", directory, lambda: self._client.list_with_delimiter(directory or None))
        return [FileInfo(name, 0, 0) for name in sorted(p.rstrip("/") for p in found["common_prefixes"])]

    def _in_order(self, directory: str, start: str, recursive: bool) -> Iterator[FileInfo]:
        if not self._ordered:
            yield from sorted(self._everything(directory, start, recursive), key=_name)
            return
        last = ""
        pages = self._pages(directory, start, recursive)
        for page in pages:
            names = [last, *(info.name for info in page)]
            if names != sorted(names):
                logger.info("%s does not list in order; its listings are sorted from now on", self._url)
                self._ordered = False
                if not last:
                    yield from sorted(self._everything(directory, start, recursive), key=_name)
                    return
                rest = sorted(
                    (info for some in ([page], pages) for group in some for info in group), key=_name
                )
                if rest[0].name < last:
                    raise StorageError(
                        f"The listing of {directory!r} came out of order after part of it was read.",
                        table=self._url,
                        hint="Do it again: listings of this store are sorted from now on.",
                    )
                yield from rest
                return
            yield from page
            last = names[-1]

    def _everything(self, directory: str, start: str, recursive: bool) -> list[FileInfo]:
        def fetch() -> list[Any]:
            if recursive:
                return [
                    meta for page in self._client.list(directory or None, chunk_size=PAGE) for meta in page
                ]
            return list(self._client.list_with_delimiter(directory or None)["objects"])

        found = self._attempt("list", directory, fetch)
        return [info for meta in found if (info := _below(meta, directory, start, recursive))]

    def _pages(self, directory: str, start: str, recursive: bool) -> Iterator[list[FileInfo]]:
        """Pages of the files asked for, leaping over subdirectories that fill pages of their own."""
        base = f"{directory}/" if directory else ""
        after = _before(base, start)
        leapt = ""
        while True:
            for metas in self._raw_pages(directory, after):
                yield [info for meta in metas if (info := _below(meta, directory, start, recursive))]
                first, last = (_subdirectory(metas[at]["path"], base) for at in (0, -1))
                crowded = len(metas) == PAGE and first == last
                if not recursive and crowded and last not in ("", leapt):
                    # '~' comes after all that such names begin with; what does not is paged through.
                    leapt, after = last, f"{base}{last}/~"
                    break
            else:
                return

    def _raw_pages(self, directory: str, after: str | None) -> Iterator[Sequence[Any]]:
        """The store's pages; one that fails is asked for again from the last name that came."""
        attempt, stream = 1, None
        while True:
            try:
                if stream is None:
                    stream = iter(self._client.list(directory or None, offset=after, chunk_size=PAGE))
                page = next(stream, None)
                failure = None
            except Exception as error:
                failure = classify(error)
            if failure is not None:
                self._pause_or_give_up("list", directory, failure, attempt)
                attempt, stream = attempt + 1, None
            elif page is None:
                return
            elif page:
                yield page
                attempt, after = 1, page[-1]["path"]

    # ------------------------------------------------------------------ trying again

    def _attempt(self, doing: str, name: str, call: Callable[[], _T], beyond: _T | None = None) -> _T:
        for attempt in count(1):
            logger.debug("%s %s/%s, attempt %d", doing, self._url, name, attempt)
            try:
                return call()
            except Exception as error:
                failure = classify(error)
            if failure.kind is Kind.BEYOND_END and beyond is not None:
                return beyond
            self._pause_or_give_up(doing, name, failure, attempt)
        raise AssertionError("unreachable")

    def _pause_or_give_up(
        self, doing: str, name: str, failure: Failure, attempt: int, *, unsure: bool = False
    ) -> None:
        # Never within an except block: the client's own error, chained, would be shown with its text.
        if failure.kind is not Kind.TRANSIENT or attempt >= self._retry.attempts:
            self._give_up(doing, name, failure, attempt, unsure)
        pause = self._retry.pause(attempt, self._rng)
        logger.info("could not %s %s/%s: %s; again in %.2f s", doing, self._url, name, failure.reason, pause)
        self._sleep(pause)

    def _give_up(self, doing: str, name: str, failure: Failure, attempt: int, unsure: bool) -> NoReturn:
        if failure.kind is Kind.MISSING and doing not in ("write", "list"):
            raise FileMissingError(f"There is no file {name!r}.", table=self._url, file=name)
        if failure.kind is Kind.MISSING:
            failure = Failure(Kind.FINAL, "the bucket or container does not exist", failure.status)
        tries = f" after {attempt} attempts" if attempt > 1 else ""
        doubt = " It is not known whether an earlier attempt wrote it." if unsure else ""
        raise StorageError(
            f"Could not {doing} {name!r}{tries}: {failure.reason}.{doubt}",
            table=self._url,
            file=name or None,
            hint=failure.hint,
        )


def _name(info: FileInfo) -> str:
    return info.name


def _milliseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MILLISECOND


def _below(meta: Any, directory: str, start: str, recursive: bool) -> FileInfo | None:
    """The object as a file of the listing asked for, or None if it is not part of it."""
    name: str = meta["path"]
    base = f"{directory}/" if directory else ""
    below = name.removeprefix(base)
    if not name.startswith(base) or below < start or (not recursive and "/" in below):
        return None
    return FileInfo(name, int(meta["size"]), _milliseconds(meta["last_modified"]))


def _subdirectory(path: str, base: str) -> str:
    """The directory below ``base`` that ``path`` is in, or "" if it is in ``base`` itself."""
    first, slash, _ = path.removeprefix(base).partition("/")
    return first if slash else ""


def _before(base: str, start: str) -> str | None:
    """A path the client takes that sorts before ``base + start``, and closely; None for the beginning.

    The client lists what comes after a path, we what comes from one: every proper beginning of
    ``start`` will do, and few names stand between the longest and ``start``.
    """
    kept = []
    for segment in start[:-1].split("/"):
        if segment in ("", ".", "..") or not segment.isprintable():
            break
        kept.append(segment)
    return base + "/".join(kept) if kept else None
