"""Addresses, structs, arrays and maps: what a search finds is what a walk over the rows finds."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from support.brute_force import Case, Row, assert_found

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("ip", pa.string()),
        ("j", pa.struct([("user", pa.string()), ("n", pa.int64()), ("in", pa.struct([("ok", pa.bool_())]))])),
        ("tags", pa.list_(pa.string())),
        ("m", pa.map_(pa.string(), pa.int64())),
    ]
)
IPV4 = ["10.0.0.1", "10.0.0.255", "10.0.1.0", "10.1.0.0", "192.168.0.1"]
ADDRESSES = [*IPV4, "::1", "2001:db8::5", "::ffff:10.0.0.1"]
NETWORKS = ["10.0.0.0/24", "10.0.0.0/8", "192.168.0.1/32", "0.0.0.0/0", "2001:db8::/32"]
WORDS = ["ann", "Bob", "Über mut", "日本", "red", "dark red", ""]
KEYS = ["a", "b", "c"]

numbers = st.integers(-3, 3) | st.sampled_from([2**53 + 1, -(2**53) - 1])
structs = st.fixed_dictionaries(
    {
        "user": st.none() | st.sampled_from(WORDS),
        "n": st.none() | numbers,
        "in": st.none() | st.fixed_dictionaries({"ok": st.none() | st.booleans()}),
    }
)
rows = st.fixed_dictionaries(
    {
        "ip": st.none() | st.sampled_from(ADDRESSES),
        "j": st.none() | structs,
        "tags": st.none() | st.lists(st.sampled_from(WORDS), max_size=3),
        "m": st.none()
        | st.dictionaries(st.sampled_from(KEYS), numbers, max_size=2).map(lambda d: list(d.items())),
    }
)


def _mapped(text: str) -> ipaddress.IPv6Address:
    """An address as it is kept: IPv4 in the space of IPv6."""
    found = ipaddress.ip_address(text)
    return found if isinstance(found, ipaddress.IPv6Address) else ipaddress.IPv6Address(f"::ffff:{found}")


def _in_network(network: str) -> Callable[[Row], bool]:
    net = ipaddress.ip_network(network)
    first, last = _mapped(str(net[0])), _mapped(str(net[-1]))
    return lambda row: row["ip"] is not None and first <= _mapped(row["ip"]) <= last


def _has(text: str | None, words: str) -> bool:
    """Whether the words stand in the text, one after the other."""
    have, want = ([w.lower() for w in re.findall(r"[^\W_]+", t or "")] for t in (text, words))
    return bool(want) and any(have[i : i + len(want)] == want for i in range(len(have)))


def _path(*names: str) -> Callable[[Row], Any]:
    def value(row: Row) -> Any:
        found: Any = row
        for name in names:
            found = None if found is None else found.get(name)
        return found

    return value


def _between(value: Callable[[Row], Any], low: int | None, high: int | None) -> Callable[[Row], bool]:
    def matches(row: Row) -> bool:
        found = value(row)
        return found is not None and (low is None or found >= low) and (high is None or found <= high)

    return matches


bounds = st.none() | st.integers(-3, 3)
leaves: st.SearchStrategy[Case] = st.one_of(
    st.sampled_from(ADDRESSES).map(
        lambda a: (f'ip:"{a}"', lambda row: row["ip"] is not None and _mapped(row["ip"]) == _mapped(a))
    ),
    st.sampled_from(NETWORKS).map(lambda n: (f'ip:"{n}"', _in_network(n))),
    st.just(("ip:10.0.*.*", _in_network("10.0.0.0/16"))),
    st.just(("NOT ip:*", lambda row: row["ip"] is None)),
    st.sampled_from([w for w in WORDS if w]).map(
        lambda w: (f'j.user:"{w}"', lambda row: _has(_path("j", "user")(row), w))
    ),
    numbers.map(lambda n: (f"j.n:{n}", lambda row: _path("j", "n")(row) == n)),
    st.tuples(bounds, bounds).map(
        lambda b: (
            f"j.n:[{'*' if b[0] is None else b[0]} TO {'*' if b[1] is None else b[1]}]",
            _between(_path("j", "n"), *b),
        )
    ),
    st.booleans().map(lambda b: (f"j.in.ok:{str(b).lower()}", lambda row: _path("j", "in", "ok")(row) is b)),
    st.sampled_from([w for w in WORDS if w]).map(
        lambda w: (f'tags:"{w}"', lambda row: any(_has(t, w) for t in row["tags"] or ()))
    ),
    st.tuples(st.sampled_from(KEYS), numbers).map(
        lambda kn: (f"m.{kn[0]}:{kn[1]}", lambda row: dict(row["m"] or ()).get(kn[0]) == kn[1])
    ),
    st.sampled_from(["j", "tags", "m"]).map(lambda c: (f"{c}:*", lambda row: row[c] is not None)),
)
queries: st.SearchStrategy[Case] = st.one_of(
    leaves,
    st.tuples(leaves, leaves).map(
        lambda p: (f"{p[0][0]} AND {p[1][0]}", lambda r: p[0][1](r) and p[1][1](r))
    ),
    st.tuples(leaves, leaves).map(lambda p: (f"{p[0][0]} OR {p[1][0]}", lambda r: p[0][1](r) or p[1][1](r))),
    leaves.map(lambda p: (f"NOT {p[0]}", lambda r: not p[1](r))),
)


@settings(max_examples=max(5, settings.default.max_examples // 6))
@given(
    st.lists(st.lists(rows, max_size=12), min_size=1, max_size=3),
    st.lists(queries, min_size=40, max_size=50),
    st.booleans(),
)
def test_a_search_finds_exactly_the_rows_that_match(
    pieces: list[list[Row]], asked: list[Case], merge: bool
) -> None:
    assert_found(pieces, asked, SCHEMA, {"indexing.typemap.ip": "ip"}, merge=merge)
