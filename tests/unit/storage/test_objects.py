"""Object stores when requests fail: repeats, answers that were lost, order, and what errors show."""

from __future__ import annotations

import io
import logging
import pickle
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore import exceptions
from obstore.store import MemoryStore as ObstoreMemory

from tidegate.errors import FileMissingError, NameTakenError, StorageError
from tidegate.storage import ObjectStore, RetryPolicy, objects
from tidegate.storage.ranges import RangeFile

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
KEY_ID = "AKIAIOSFODNN7EXAMPLE"


def transport(kind: str) -> Exception:
    """The client's error when no answer came, with a signed URL in it as its texts have."""
    return exceptions.GenericError(
        f"Generic S3 error: Error performing PUT http://127.0.0.1:1/bkt/x?sig={SECRET} in 436µs - "
        "HTTP error: error sending request\n\nDebug source:\nGeneric {\n    source: RetryError(\n"
        "        RetryErrorImpl {\n            inner: Http(\n                HttpError {\n"
        f"                    kind: {kind},\n                    source: reqwest::Error {{\n"
        "                        kind: Request,\n"
    )


def answer(status: int, code: str = "", kind: type[Exception] = exceptions.GenericError) -> Exception:
    """The client's error when the server refused, with the server's words in it."""
    return kind(
        "Generic S3 error: Error performing PUT http://127.0.0.1:1/bkt/x in 492µs - Server returned non-2xx "
        f"status code: {status} Some Words: <Error><Code>{code}</Code><Message>no</Message>"
        f"<AWSAccessKeyId>{KEY_ID}</AWSAccessKeyId><StringToSign>{SECRET}</StringToSign></Error>"
    )


TIMEOUT, REFUSED, BROKEN = transport("Timeout"), transport("Connect"), transport("Request")
BUSY = answer(503, "SlowDown")
TAKEN_412 = answer(412, "PreconditionFailed", exceptions.AlreadyExistsError)
CONFLICT_409 = answer(409, "ConditionalRequestConflict", exceptions.AlreadyExistsError)


class Flaky:
    """A real client whose next calls of a method fail as planned, before or after they took effect."""

    def __init__(self) -> None:
        self.inner = ObstoreMemory()
        self.calls: list[str] = []
        self.plan: dict[str, list[tuple[str, Exception] | None]] = {}

    def fail(self, method: str, *steps: tuple[str, Exception] | None) -> None:
        self.plan[method] = list(steps)

    def __getattr__(self, method: str) -> Callable[..., Any]:
        real = getattr(self.inner, method)

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(method)
            steps = self.plan.get(method)
            step = steps.pop(0) if steps else None
            if step and step[0] == "before":
                raise step[1]
            result = real(*args, **kwargs)
            if step:
                raise step[1]
            return result

        return call


class World:
    """A store over a flaky client, with a clock that only writes down how long it was told to sleep."""

    def __init__(self, **how: Any) -> None:
        self.client = Flaky()
        self.pauses: list[float] = []
        self.store = ObjectStore(
            self.client,
            url="s3://bucket/table",
            retry=RetryPolicy(attempts=4, first=1.0, longest=3.0),
            sleep=self.pauses.append,
            rng=lambda: 1.0,
            **how,
        )


@pytest.fixture
def world() -> World:
    return World()


# ---------------------------------------------------------------------------- put-if-absent


@pytest.mark.parametrize(
    "error", [TIMEOUT, BROKEN, BUSY, answer(500, "InternalError"), ConnectionError("reset")]
)
def test_a_put_whose_answer_was_lost_is_recognised_as_our_own(world: World, error: Exception) -> None:
    world.client.fail("put", ("after", error))
    world.store.put_if_absent("log/0", b"ours")
    assert world.client.calls == ["put", "put", "get"]
    assert world.pauses == [1.0]
    assert world.store.get("log/0") == b"ours"


def test_a_put_whose_answer_was_lost_twice_is_recognised(world: World) -> None:
    world.client.fail("put", ("after", TIMEOUT), ("before", BUSY))
    world.store.put_if_absent("log/0", b"ours")
    assert world.store.get("log/0") == b"ours"


def test_a_put_that_never_arrived_is_made(world: World) -> None:
    world.client.fail("put", ("before", TIMEOUT), ("before", REFUSED))
    world.store.put_if_absent("log/0", b"ours")
    assert world.client.calls == ["put", "put", "put"]
    assert world.store.get("log/0") == b"ours"


def test_another_writer_who_came_between_two_attempts_wins(world: World) -> None:
    world.client.inner.put("log/0", b"theirs")
    world.client.fail("put", ("before", TIMEOUT))
    with pytest.raises(NameTakenError):
        world.store.put_if_absent("log/0", b"ours")
    assert world.store.get("log/0") == b"theirs"


def test_the_same_bytes_of_another_writer_are_not_ours_on_a_first_attempt(world: World) -> None:
    world.client.inner.put("log/0", b"same")
    with pytest.raises(NameTakenError):
        world.store.put_if_absent("log/0", b"same")
    assert world.client.calls == ["put"]


def test_the_same_bytes_are_not_ours_after_an_attempt_that_surely_never_arrived(world: World) -> None:
    world.client.inner.put("log/0", b"same")
    world.client.fail("put", ("before", REFUSED))
    with pytest.raises(NameTakenError):
        world.store.put_if_absent("log/0", b"same")


def test_a_comparison_that_fails_in_passing_is_repeated(world: World) -> None:
    world.client.fail("put", ("after", TIMEOUT))
    world.client.fail("get", ("before", BUSY))
    world.store.put_if_absent("log/0", b"ours")


def test_a_conflict_while_the_name_is_free_is_tried_again(world: World) -> None:
    # S3 answers 409 while another conditional put is under way, and that one may come to nothing.
    world.client.fail("put", ("before", CONFLICT_409))
    world.store.put_if_absent("log/0", b"ours")
    assert world.client.calls == ["put", "head", "put"]
    assert world.store.get("log/0") == b"ours"


def test_a_conflict_over_a_name_that_is_there_is_final(world: World) -> None:
    # Azure answers 409 when the name is taken.
    world.client.inner.put("log/0", b"same")
    world.client.fail("put", ("before", CONFLICT_409))
    with pytest.raises(NameTakenError):
        world.store.put_if_absent("log/0", b"same")
    assert world.client.calls == ["put", "head"]


def test_a_conflict_that_lasts_is_not_called_a_name_that_is_taken(world: World) -> None:
    world.client.fail("put", *[("before", CONFLICT_409)] * 4)
    with pytest.raises(StorageError, match="another writer was at work") as failed:
        world.store.put_if_absent("log/0", b"ours")
    assert not isinstance(failed.value, NameTakenError)


def test_a_refusal_with_412_needs_no_further_request(world: World) -> None:
    world.client.fail("put", ("before", TAKEN_412))
    with pytest.raises(NameTakenError):
        world.store.put_if_absent("log/0", b"ours")
    assert world.client.calls == ["put"]


def test_giving_up_says_whether_the_write_may_have_taken_place(world: World) -> None:
    world.client.fail("put", *[("before", TIMEOUT)] * 4)
    with pytest.raises(StorageError, match=r"after 4 attempts: no answer came in time.*not known whether"):
        world.store.put_if_absent("log/0", b"ours")
    world.client.fail("put", *[("before", REFUSED)] * 4)
    with pytest.raises(StorageError, match="no connection could be made") as failed:
        world.store.put_if_absent("log/0", b"ours")
    assert "not known" not in str(failed.value)


def test_conditional_puts_go_through_the_client_that_never_repeats() -> None:
    client, once = Flaky(), Flaky()
    store = ObjectStore(client, once=once, url="s3://b")
    store.put_if_absent("a", b"")
    store.put("b", b"")
    assert (once.calls, client.calls) == (["put"], ["put"])


# ---------------------------------------------------------------------------- repeats


OPERATIONS: dict[str, Callable[[ObjectStore], object]] = {
    "get": lambda store: store.get("a"),
    "get_range": lambda store: store.get_range("a", 0, 1),
    "head": lambda store: store.head("a"),
    "put": lambda store: store.put("a", b"x"),
    "delete": lambda store: store.delete(["a"]),
    "list": lambda store: list(store.list_from("")),
}


@pytest.mark.parametrize("method", OPERATIONS)
@pytest.mark.parametrize("error", [TIMEOUT, REFUSED, BROKEN, BUSY, answer(429), transport("Interrupted")])
def test_what_failed_in_passing_is_repeated(world: World, method: str, error: Exception) -> None:
    world.client.inner.put("a", b"x")
    world.client.fail(method, ("before", error), ("before", error))
    OPERATIONS[method](world.store)
    assert world.client.calls == [method] * 3
    assert world.pauses == [1.0, 2.0]


@pytest.mark.parametrize("method", OPERATIONS)
def test_what_keeps_failing_is_given_up(world: World, method: str) -> None:
    world.client.inner.put("a", b"x")
    world.client.fail(method, *[("before", BUSY)] * 10)
    with pytest.raises(StorageError, match="after 4 attempts: the store answered HTTP 503 SlowDown"):
        OPERATIONS[method](world.store)
    assert world.pauses == [1.0, 2.0, 3.0]


FINAL = {
    "access was refused": answer(403, "InvalidAccessKeyId", exceptions.PermissionDeniedError),
    "access was refused ": answer(401, "", exceptions.UnauthenticatedError),
    "access was refused (HTTP 403": answer(403, "SignatureDoesNotMatch"),
    "HTTP 400 BadDigest": answer(400, "BadDigest"),
    "does not offer that operation": answer(501, "NotImplemented"),
    "bucket or container does not exist": answer(404, "NoSuchBucket", FileNotFoundError),
    "no credentials were found": exceptions.GenericError(
        f"Error performing PUT http://169.254.169.254/latest/api/token {SECRET}"
    ),
    "redirect": exceptions.GenericError(f"Received redirect {SECRET} inner: BareRedirect"),
    "not https": exceptions.GenericError(f"HTTP error: builder error {SECRET} source: BadScheme"),
    "no such name": ValueError(f"Could not parse path {SECRET}"),
    "RuntimeError": RuntimeError(SECRET),
    "no reason that can be shown": exceptions.GenericError(SECRET),
}


@pytest.mark.parametrize("words", FINAL)
@pytest.mark.parametrize("method", OPERATIONS)
def test_what_will_not_get_better_is_not_repeated(world: World, method: str, words: str) -> None:
    world.client.fail(method, ("before", FINAL[words]))
    with pytest.raises(StorageError) as failed:
        OPERATIONS[method](world.store)
    assert words.strip() in str(failed.value)
    assert not isinstance(failed.value, FileMissingError)
    assert world.client.calls == [method]


def test_a_put_into_a_bucket_that_is_not_there_is_not_a_missing_file(world: World) -> None:
    world.client.fail("put", ("before", FileNotFoundError("404")))
    with pytest.raises(StorageError, match="bucket or container does not exist") as failed:
        world.store.put("a", b"")
    assert not isinstance(failed.value, FileMissingError)


@given(attempt=st.integers(1, 5000), draw=st.floats(0, 1, exclude_max=True))
def test_a_pause_is_drawn_from_a_window_that_doubles_up_to_a_bound(attempt: int, draw: float) -> None:
    policy = RetryPolicy(first=0.1, longest=10.0)
    window = policy.pause(attempt, lambda: 1.0)
    assert window == pytest.approx(min(10.0, 0.1 * 2 ** min(attempt - 1, 40)))
    assert policy.pause(attempt, lambda: draw) == pytest.approx(draw * window)


# ---------------------------------------------------------------------------- what errors and logs show


@pytest.mark.parametrize("error", [TIMEOUT, BUSY, CONFLICT_409, *FINAL.values()])
def test_no_credential_shows_in_errors_tracebacks_or_logs(
    world: World, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    operations = {**OPERATIONS, "put": lambda store: store.put_if_absent("a", b"x")}
    with caplog.at_level(logging.DEBUG, logger="tidegate"):
        for method, operation in operations.items():
            world.client.fail(method, *[("before", error)] * 9)
            with pytest.raises(StorageError) as failed:
                operation(world.store)
            shown = [str(failed.value), repr(failed.value), *traceback.format_exception(failed.value)]
            chained = failed.value.__cause__ or failed.value.__context__
            assert chained is None
            for text in shown:
                assert SECRET not in text
                assert KEY_ID not in text
            assert SECRET.encode() not in pickle.dumps(failed.value)
    assert caplog.text
    assert SECRET not in caplog.text
    assert KEY_ID not in caplog.text


# ---------------------------------------------------------------------------- listings


class Pages:
    """A client that lists given names in the given order, in pages, and remembers what it was asked."""

    def __init__(self, names: list[str], page: int, fail_after: int | None = None) -> None:
        self.names, self.page, self.fail_after = names, page, fail_after
        self.asked: list[str | None] = []
        self.pages = 0

    def list(
        self, prefix: str | None = None, *, offset: str | None = None, chunk_size: int = 0
    ) -> Iterator[Any]:
        self.asked.append(offset)
        base = f"{prefix}/" if prefix else ""
        found = [name for name in self.names if name.startswith(base) and (offset is None or name > offset)]
        for at in range(0, len(found), self.page):
            if self.fail_after is not None and self.pages >= self.fail_after:
                self.fail_after = None
                raise BUSY
            self.pages += 1
            yield [self.meta(name) for name in found[at : at + self.page]]

    def list_with_delimiter(self, prefix: str | None = None) -> Any:
        base = f"{prefix}/" if prefix else ""
        found = [name for name in self.names if name.startswith(base) and "/" not in name.removeprefix(base)]
        return {"objects": [self.meta(name) for name in found]}

    def meta(self, name: str) -> dict[str, Any]:
        return {"path": name, "size": 1, "last_modified": objects._EPOCH}


def over(client: Pages, **how: Any) -> ObjectStore:
    return ObjectStore(client, url="s3://b", sleep=lambda _: None, **how)  # type: ignore[arg-type]


def listed(store: ObjectStore, directory: str = "", start: str = "", **how: bool) -> list[str]:
    return [info.name for info in store.list_from(directory, start, **how)]


def test_a_listing_is_lazy() -> None:
    client = Pages([f"log/{number:03d}" for number in range(100)], page=10)
    listing = over(client).list_from("log")
    assert client.asked == []
    assert next(listing).name == "log/000"
    assert client.pages == 1


def test_a_listing_asks_the_store_to_begin_near_the_start() -> None:
    client = Pages([f"log/{number:020d}.json" for number in range(2000)], page=10)
    found = listed(over(client), "log", "00000000000000001990.json")
    assert (found[0], len(found)) == ("log/00000000000000001990.json", 10)
    assert client.pages == 1
    assert client.asked[0] is not None


@pytest.mark.parametrize("broken", range(10))
def test_a_listing_that_breaks_off_goes_on_where_it_was(broken: int) -> None:
    names = [f"log/{number:03d}" for number in range(100)]
    client = Pages(names, page=10, fail_after=broken)
    assert listed(over(client), "log") == names
    assert client.asked == [None, f"log/{broken * 10 - 1:03d}" if broken else None]


def test_a_store_that_lists_out_of_order_is_sorted() -> None:
    names = ["log/b", "log/a", "log/sub/x", "log/c"]
    store = over(Pages(names, page=10))
    assert listed(store, "log") == ["log/a", "log/b", "log/c"]
    assert listed(store, "log", "b", recursive=True) == ["log/b", "log/c", "log/sub/x"]


def test_disorder_that_can_still_be_mended_is() -> None:
    assert listed(over(Pages(["a", "b", "d", "c", "f", "e"], page=2))) == ["a", "b", "c", "d", "e", "f"]


def test_disorder_that_comes_too_late_is_an_error_and_then_sorted() -> None:
    store = over(Pages(["b", "c", "a", "d"], page=2))
    with pytest.raises(StorageError, match="out of order"):
        listed(store)
    assert listed(store) == ["a", "b", "c", "d"]


def test_a_store_known_to_have_no_order_is_asked_for_everything() -> None:
    client = Pages(["log/c", "log/a", "log/sub/x", "log/b"], page=1)
    store = over(client, ordered=False)
    assert listed(store, "log", "b") == ["log/b", "log/c"]
    assert client.asked == []
    assert listed(store, "log", recursive=True) == ["log/a", "log/b", "log/c", "log/sub/x"]
    assert client.asked == [None]


def test_a_crowded_subdirectory_is_leapt_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "PAGE", 10)
    names = sorted(
        [f"log/{number:03d}.json" for number in range(15)]
        + [f"log/_sidecars/{number:05d}" for number in range(1000)]
        + [f"log/_small/{number}" for number in range(3)]
        + ["log/_z", "log/zz"]
    )
    client = Pages(names, page=10)
    expected = [name for name in names if name.count("/") == 1]
    assert listed(over(client), "log") == expected
    assert client.pages < 8
    client = Pages(names, page=10)
    assert listed(over(client), "log", recursive=True) == names


def test_names_a_leap_does_not_reach_over_are_paged_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "PAGE", 10)
    names = sorted([f"log/s/ü{number:05d}" for number in range(100)] + ["log/a", "log/z"])
    client = Pages(names, page=10)
    assert listed(over(client), "log") == ["log/a", "log/z"]
    assert len(client.asked) == 2


NAME = st.text(alphabet="a0-./~_é", min_size=1, max_size=5).filter(
    lambda name: not ({"", ".", ".."} & set(name.split("/")))
)


@given(
    names=st.sets(NAME, max_size=30),
    directory=st.sampled_from(["", "a", "a/0", "_"]),
    start=st.text(alphabet="a0-./~_é\x01", max_size=4),
    recursive=st.booleans(),
    page=st.integers(1, 5),
    broken=st.none() | st.integers(0, 5),
)
def test_a_listing_is_the_names_asked_for_in_order(
    names: set[str], directory: str, start: str, recursive: bool, page: int, broken: int | None
) -> None:
    base = f"{directory}/" if directory else ""
    below = sorted(name.removeprefix(base) for name in names if name.startswith(base))
    expected = [base + name for name in below if name >= start and (recursive or "/" not in name)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objects, "PAGE", page)
        client = Pages(sorted(names), page, fail_after=broken)
        assert listed(over(client), directory, start, recursive=recursive) == expected


# ---------------------------------------------------------------------------- deleting, opening


def test_a_bulk_delete_that_stops_at_a_missing_name_is_finished_one_by_one(world: World) -> None:
    for name in "abc":
        world.client.inner.put(name, b"")
    world.client.fail("delete", ("before", FileNotFoundError("a")), None, ("before", FileNotFoundError("b")))
    world.store.delete(["a", "b", "c"])
    assert world.client.calls == ["delete"] * 4
    assert listed(world.store) == ["b"]


def test_deletes_go_in_batches(world: World) -> None:
    world.client.inner.put("n2499", b"")
    world.store.delete(f"n{number}" for number in range(2500))
    assert world.client.calls == ["delete"] * 3
    assert listed(world.store) == []


def test_a_small_file_opens_with_one_request(world: World) -> None:
    world.store.put("a", b"x" * 1000)
    world.client.calls.clear()
    with world.store.open_input("a") as file:
        assert file.read() == b"x" * 1000
    assert world.client.calls == ["get"]


def test_a_large_file_is_read_in_ranges(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table(
        {"id": pa.array(range(300_000)), "text": [f"{number:032x}" for number in range(300_000)]}
    )
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="none", use_dictionary=False)
    world.store.put("large", sink.getvalue())
    assert len(sink.getvalue()) > objects.WHOLE
    world.client.calls.clear()
    world.client.fail("get_range", ("before", BUSY))
    with world.store.open_input("large") as file:
        assert file.size() == len(sink.getvalue())
        assert pq.read_table(file, columns=["id"], pre_buffer=False) == table.select(["id"])
    assert world.client.calls[0] == "get"
    assert 2 <= world.client.calls.count("get_range") <= 12


@given(
    content=st.binary(max_size=60),
    ahead=st.integers(1, 20),
    steps=st.lists(
        st.tuples(st.just("read"), st.integers(-1, 30), st.just(0))
        | st.tuples(st.just("seek"), st.integers(0, 70), st.just(0))
        | st.tuples(st.just("seek"), st.integers(-5, 5), st.sampled_from([1, 2])),
        max_size=12,
    ),
)
def test_a_file_over_ranges_reads_as_one_in_memory(
    content: bytes, ahead: int, steps: list[tuple[str, int, int]]
) -> None:
    def fetch(offset: int, length: int) -> bytes:
        assert length > 0
        assert offset + length <= len(content)
        return content[offset : offset + length]

    ours, model = RangeFile(fetch, len(content), ahead), io.BytesIO(content)
    for step, number, whence in steps:
        if step == "read":
            assert ours.read(number) == model.read(number)
        elif (whence and model.tell() + number < 0) or (whence == 2 and len(content) + number < 0):
            continue
        else:
            assert ours.seek(number, whence) == model.seek(number, whence)
        assert ours.tell() == model.tell()


def test_a_file_over_ranges_cannot_go_before_its_beginning() -> None:
    with pytest.raises(OSError, match="cannot seek"):
        RangeFile(lambda *_: b"", 10).seek(-1)


def test_a_file_over_ranges_reads_into_a_buffer_and_to_the_end() -> None:
    content = bytes(range(50))
    file = RangeFile(lambda offset, length: content[offset : offset + length], 50, ahead=8)
    buffer = bytearray(20)
    assert file.readinto(memoryview(buffer)) == 20
    assert bytes(buffer) == content[:20]
    assert file.readall() == content[20:]
    assert file.readable()
    assert file.seekable()
