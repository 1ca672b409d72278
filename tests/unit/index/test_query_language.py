"""The query language: what a text means, and where it stops making sense."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from support.splits import write_index
from tidegate.errors import QueryError
from tidegate.index.names import Names
from tidegate.index.parse import parse_query
from tidegate.index.prune import implied
from tidegate.index.query import All, Bool, Exists, OneOf, Range, Term
from tidegate.index.tables import Searchable


def test_and_binds_tighter_than_or_and_than_a_space() -> None:
    a, b, c = (Term(None, w) for w in "abc")
    assert parse_query("a AND b OR c") == Bool(should=(Bool(must=(a, b)), c))
    assert parse_query("a b AND c") == Bool(should=(a, Bool(must=(b, c))))
    assert parse_query("+a -b c") == Bool(must=(a,), should=(c,), never=(b,))


def test_values_keep_colons_slashes_and_escaped_signs() -> None:
    assert parse_query("ts:>=2026-01-31T12:00:00Z") == Range("ts", "2026-01-31T12:00:00Z", None)
    assert parse_query("a:b\\ c\\*") == Term("a", "b c*")
    assert parse_query("`odd name`:x") == Term("odd name", "x")
    assert parse_query('f:IN [a, "b c"]') == OneOf("f", ("a", "b c"))
    assert parse_query("f:*") == Exists("f")
    assert parse_query("*") == All()


@pytest.mark.parametrize(
    "text",
    ["", "(a", "a)", "AND a", "a OR", "f:[1 5]", '"open', "f:", "()", "/open", "a^b", "`a:b", "f:IN [a"],
)
def test_a_text_without_meaning_is_refused(text: str) -> None:
    with pytest.raises(QueryError) as failure:
        parse_query(text)
    assert failure.value.code == "QUERY_INVALID"


@pytest.fixture
def logs(tmp_path: Path) -> Searchable:
    rows = pa.table(
        {
            "id": [1, 2, 3, 4],
            "message": ["Connection reset by peer", "reset the connection", None, "Connecting to peers"],
            "level": ["ERROR", "WARN", None, "ERROR"],
            "plain": ["no positions here", "here no positions", "x", None],
            "payload": ['{"user": {"name": "Ann Lee", "age": 31}}', '{"user": {"age": 7.5}}', "[1, 2]", None],
        }
    )
    options = {
        "indexing.typemap.text": "message,plain",
        "indexing.typemap.payload": "json",
        "indexing.indexrecordoption.basic": "plain",
    }
    return write_index(tmp_path / "logs", [rows], options)


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("reset", [1, 2]),
        ("message:RESET", [1, 2]),
        ('"connection reset"', [1]),
        ('message:"connection reset"~3', [1, 2]),
        ('"to pee"*', [4]),
        ("message:connect*", [1, 2, 4]),
        ("message:p??r", [1]),
        ("message:peerz~1", [1, 4]),
        ("message:/connect(ing|ion)/", [1, 2, 4]),
        ("level:E*", [1, 4]),
        ("level:error", []),
        ("level:[F TO X]", [2]),
        ("NOT level:*", [3]),
        ("-level:ERROR", [2, 3]),
        ("message:(reset AND peer)", [1]),
        ("payload.user.name:lee", [1]),
        ('payload.user.name:"ann lee"', [1]),
        ("payload.user.age:31", [1]),
        ("payload.user.age:[7 TO 8]", [2]),
        ("payload.user.age:>7.4", [1, 2]),
        ("payload:2", [3]),
        ("payload.user.name:*", [1]),
        ("plain:(no AND here)", [1, 2]),
        ("id:IN [1, 4] AND level:ERROR^2", [1, 4]),
    ],
)
def test_each_form_finds_its_rows(logs: Searchable, query: str, ids: list[int]) -> None:
    assert logs.search(query, ["id"]).table().column("id").to_pylist() == ids
    assert logs.count(query) == len(ids)


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("nobody:x", "no field nobody"),
        ("id:abc", "no value of the column id"),
        ("id:1*", "not patterns"),
        ("message:[a TO b]", "typemap.message = string"),
        ('plain:"no positions"', "positions"),
        ("message:word~3", "distance"),
        ("payload.user.name:an*", "Patterns"),
        ("level:[aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa TO *]", "characters"),
        ("message:/(/", "regular expression"),
    ],
)
def test_what_a_field_cannot_answer_is_refused_with_the_remedy(
    logs: Searchable, query: str, word: str
) -> None:
    with pytest.raises(QueryError, match=word):
        logs.search(query, ["id"]).table()


def test_scores_put_the_best_first_and_snippets_mark_the_words(logs: Searchable) -> None:
    found = logs.search("reset OR peer", ["id"], scores=True, highlight=["message"], marks=("[", "]")).table()
    assert found.column("id").to_pylist()[0] == 1
    scores = found.column("_score").to_pylist()
    assert scores == sorted(scores, reverse=True)
    assert found.column("_snippet_message").to_pylist()[0] == "Connection [reset] by [peer]"
    best = logs.search("reset OR peer", ["id"], 1, scores=True).table()
    assert best.column("id").to_pylist() == [1]


def test_a_query_says_to_the_log_what_every_match_fulfils(logs: Searchable) -> None:
    names: Names = logs.names
    assert str(implied(parse_query("reset AND level:ERROR AND id:[2 TO *]"), names)) == (
        "(level = 'ERROR' AND id >= 2)"
    )
    assert str(implied(parse_query("level:ERROR OR reset"), names)) == "TRUE"
    assert str(implied(parse_query("NOT level:ERROR"), names)) == "TRUE"


def test_prefix_phrases_have_no_hidden_limit(tmp_path: Path) -> None:
    rows = pa.table({"s": [f"alpha x{i}" for i in range(300)]})
    table = write_index(tmp_path / "many", [rows], {"indexing.typemap.s": "text"})
    assert table.count('"alpha x"*') == 300
    assert table.search("x*").table().num_rows == 300
