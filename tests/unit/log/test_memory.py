"""The allocator of large reads: borrowed for a read, given back after it, chosen pools left alone."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from tidegate.log.memory import steady_memory


def backend() -> str:
    return str(pa.default_memory_pool().backend_name)


@pytest.fixture(autouse=True)
def _pool_as_before() -> Iterator[None]:
    before = pa.default_memory_pool()
    yield
    pa.set_memory_pool(before)


def needs(name: str) -> pa.MemoryPool:
    try:
        return getattr(pa, f"{name}_memory_pool")()
    except NotImplementedError:
        pytest.skip(f"this build of Arrow has no {name}")


def test_a_read_takes_jemalloc_and_gives_the_default_back() -> None:
    needs("jemalloc")
    pa.set_memory_pool(needs("mimalloc"))
    with steady_memory():
        assert backend() == "jemalloc"
    assert backend() == "mimalloc"


def test_of_two_reads_at_once_the_last_one_gives_it_back() -> None:
    needs("jemalloc")
    pa.set_memory_pool(needs("mimalloc"))
    first, second = steady_memory(), steady_memory()
    with second:
        with first:
            pass
        assert backend() == "jemalloc"
    assert backend() == "mimalloc"


def test_a_failed_read_gives_it_back_too() -> None:
    pa.set_memory_pool(needs("mimalloc"))
    with pytest.raises(KeyError), steady_memory():
        raise KeyError("read")
    assert backend() == "mimalloc"


def test_a_pool_that_the_application_chose_stays() -> None:
    pa.set_memory_pool(pa.system_memory_pool())
    with steady_memory():
        assert backend() == "system"


def test_what_was_read_outlives_the_read() -> None:
    with steady_memory():
        kept = pa.array(range(100_000)).cast(pa.string())
    assert kept[99_999].as_py() == "99999"
