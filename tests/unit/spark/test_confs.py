"""Confs of the session: how they are read, and what some of them steer. No Spark: a session is its confs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from support.tables import RawTable, add, column, features, protocol, schema_string
from tidegate.commands.alter import cluster_by, set_properties
from tidegate.commands.auto_compact import is_occasion
from tidegate.commands.vacuum import vacuum
from tidegate.errors import AlterRefusedError, MaxCommitAttemptsError, OptionError, TransactionStateError
from tidegate.files.predicate import parse
from tidegate.log.actions import Add, Txn
from tidegate.log.settings import Settings
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.spark import confs
from tidegate.spark.confs import PREFIX, conf, in_session, parsed, settings
from tidegate.spark.skipping import narrowing
from tidegate.spark.write.files import _told
from tidegate.transaction.transaction import Transaction


def session(**confs: str) -> Any:
    """A session in which these confs are set, ``__`` for each dot."""
    values = {PREFIX + k.replace("__", "."): v for k, v in confs.items()}
    return SimpleNamespace(conf=SimpleNamespace(get=values.get, values=values))


def made(**configuration: str) -> tuple[RawTable, TableLog]:
    table = RawTable()
    table.create(configuration=configuration)
    table.commit(add("f"))
    return table, TableLog(table.store)


@pytest.mark.parametrize(
    ("text", "default", "value"),
    [
        ("TRUE", False, True),
        (" false ", True, False),
        ("128m", 1, 128 << 20),
        ("2GB", 1, 2 << 30),
        ("17", 1, 17),
        ("0.5", 0.1, 0.5),
        ("any word", "", "any word"),
        (None, 7, 7),
    ],
)
def test_a_conf_has_the_type_of_its_default(text: str | None, default: Any, value: Any) -> None:
    assert conf(session(**({} if text is None else {"a__b": text})), "a.b", default) == value


@pytest.mark.parametrize(("text", "default"), [("yes", True), ("-1", 1), ("1x", 1), ("much", 0.5)])
def test_a_conf_that_is_no_such_value_is_refused_by_name(text: str, default: Any) -> None:
    with pytest.raises(OptionError, match=r"spark\.databricks\.delta\.a\.b is"):
        conf(session(a__b=text), "a.b", default)


def test_commits_carry_what_the_session_says_at_their_moment_unless_they_say_it_themselves() -> None:
    _, log = made()
    spark = session(commitInfo__userMetadata="nightly")
    log = in_session(spark, log)
    set_properties(log, {"a": "1"})
    vacuum(log)
    Transaction.begin(log).commit(user_metadata="by hand")
    spark.conf.values.clear()
    set_properties(log, {"a": "2"})
    said = [(c["operation"], c.get("userMetadata")) for c in load(log).history(5)]
    assert said == [
        ("SET TBLPROPERTIES", None),
        ("WRITE", "by hand"),
        ("VACUUM END", "nightly"),
        ("VACUUM START", "nightly"),
        ("SET TBLPROPERTIES", "nightly"),
    ]


@pytest.mark.parametrize(
    ("said", "blind", "expected"),
    [(None, True, True), ("false", True, True), ("true", True, False), ("true", False, True)],
)
def test_plain_appends_may_be_left_out_of_auto_compaction(
    said: str | None, blind: bool, expected: bool
) -> None:
    _, log = made()
    transaction = Transaction.begin(log)
    if not blind:
        transaction.read_table()
    done = transaction.commit(
        [Add(path="g", partition_values={}, size=1, modification_time=0, data_change=True)]
    )
    assert done.snapshot.commit_info["isBlindAppend"] is blind
    spark = session(**({} if said is None else {"autoCompact__nonBlindAppend__enabled": said}))
    assert is_occasion(spark, done.snapshot) is expected


@pytest.mark.parametrize(
    ("said", "clustered", "expected"),
    [(None, False, "8"), ("true", False, "8"), ("false", False, "0"), ("false", True, "8")],
)
def test_statistics_of_columns_are_left_out_where_the_session_wants_none(
    said: str | None, clustered: bool, expected: str
) -> None:
    key, columns = "delta.dataSkippingNumIndexedCols", "delta.dataSkippingStatsColumns"
    table = RawTable()
    head = features(writers=["clustering", "domainMetadata"]) if clustered else protocol()
    table.create(protocol=head, configuration={key: "8", columns: "id"})
    spark = session(**({} if said is None else {"stats__collect": said}))
    told = _told(spark, Transaction.begin(TableLog(table.store)))
    assert told.configuration[key] == expected
    assert (columns in told.configuration) is (expected == "8")


@pytest.mark.parametrize(
    ("said", "text", "expected"),
    [
        (None, "p = 1 AND id > 5", "p = 1 AND id > 5"),
        ("true", "id > 5", "id > 5"),
        ("false", "p = 1 AND id > 5", "p = 1"),
        ("false", "P = 1 OR id > 5", "TRUE"),
        ("false", "id > 5", "TRUE"),
    ],
)
def test_files_are_left_out_by_partition_values_alone_where_no_statistics_are_trusted(
    said: str | None, text: str, expected: str
) -> None:
    spark = session(**({} if said is None else {"stats__skipping": said}))
    assert narrowing(spark, parse(text), ["p"]) == parse(expected)


@pytest.mark.parametrize(
    ("said", "default"), [("9" * 40, 1), ("9" * 18 + "t", 1), ("nan", 0.5), ("inf", 0.5), ("much", 0.5)]
)
def test_numbers_that_nothing_can_count_with_are_refused_by_the_name_of_the_conf(
    said: str, default: float
) -> None:
    with pytest.raises(OptionError, match=r"optimize\.someSize"):
        parsed("optimize.someSize", said, default)


# ---------------------------------------------------------------------------- commits and checkpoints


def test_a_session_without_confs_has_the_defaults_of_the_log() -> None:
    assert settings(session()) == Settings()


def test_every_conf_of_commits_and_checkpoints_has_its_setting() -> None:
    spark = session(
        maxCommitAttempts="3",
        skipRecordingEmptyCommits="false",
        writeChecksumFile__enabled="false",
        lastCheckpoint__checksum__enabled="false",
        checkpoint__partSize="10",
        checkpointV2__topLevelFileFormat="Parquet",
        clusteredTable__numClusteringColumnsLimit="2",
    )
    assert settings(spark) == Settings(3, False, False, False, 10, "parquet", 2)


def test_a_client_of_connect_asks_for_all_of_them_in_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Confs:
        @property
        def getAll(self) -> dict[str, str]:
            asked.append("all")
            return {PREFIX + "maxCommitAttempts": "3", PREFIX + "checkpoint.partSize": "10"}

    monkeypatch.setattr(confs, "is_connect", lambda spark: True)
    session: Any = SimpleNamespace(conf=Confs())
    assert settings(session) == Settings(retries=3, part_size=10)
    assert asked == ["all"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("maxCommitAttempts", "-1"),
        ("writeChecksumFile.enabled", "yes"),
        ("lastCheckpoint.checksum.enabled", "1"),
        ("checkpoint.partSize", "0"),
        ("checkpointV2.topLevelFileFormat", "avro"),
        ("clusteredTable.numClusteringColumnsLimit", "0"),
    ],
)
def test_an_illegal_value_is_refused_when_the_transaction_begins(name: str, value: str) -> None:
    _, log = made()
    spark = session(**{name.replace(".", "__"): value})
    with pytest.raises(OptionError, match=PREFIX + name):
        Transaction.begin(in_session(spark, log))


def test_a_commit_that_says_nothing_is_left_out_unless_the_session_wants_it() -> None:
    _, log = made()
    assert Transaction.begin(in_session(session(), log)).commit_if_needed() is None
    over = Transaction.begin(log)
    assert over.commit_if_needed(adds=[]) is None
    with pytest.raises(TransactionStateError):
        over.commit()
    wanted = in_session(session(skipRecordingEmptyCommits="false"), log)
    recorded = Transaction.begin(wanted).commit_if_needed(operation="DELETE")
    assert recorded is not None
    assert (recorded.version, recorded.snapshot.commit_info["operation"]) == (2, "DELETE")
    # Whatever says something is a commit: an application's number, metadata though they stay the same.
    moved = Transaction.begin(log).commit_if_needed([Txn(app_id="a", version=1)])
    again = Transaction.begin(log)
    again.update_metadata(again.metadata)
    same = again.commit_if_needed()
    assert moved is not None
    assert same is not None
    assert (moved.version, same.version) == (3, 4)


def test_a_commit_tries_again_as_often_as_the_session_says() -> None:
    """Delta counts what comes after the first attempt."""
    table, log = made()
    loser = Transaction.begin(in_session(session(maxCommitAttempts="2"), log), sleep=lambda _: None)
    others = table.memory.handle()

    def rival(op: str, name: str) -> None:
        if op == "put_if_absent" and name.endswith(".json"):
            others.put_if_absent(name, b'{"commitInfo":{"operation":"RIVAL"}}\n')

    table.memory.hook = rival
    with pytest.raises(MaxCommitAttemptsError, match="lost 3 races"):
        loser.commit([Add(path="g", partition_values={}, size=1, modification_time=0, data_change=True)])


@pytest.mark.parametrize(("said", "expected"), [(None, True), ("true", True), ("false", False)])
def test_commits_and_checkpoints_write_checksums_where_the_session_wants_them(
    said: str | None, expected: bool
) -> None:
    table, log = made(**{"delta.checkpointInterval": "2"})
    table.checksum()
    log = in_session(session(**({} if said is None else {"writeChecksumFile__enabled": said})), log)
    set_properties(log, {"a": "1"})
    set_properties(log, {"a": "2"})
    names = table.names()
    assert (f"{2:020}.crc" in names) is expected
    assert f"{2:020}.checkpoint.parquet" in names


def test_a_table_is_clustered_by_as_many_columns_as_the_session_allows() -> None:
    table = RawTable()
    table.create(schema=schema_string(column("a"), column("b"), column("c")))
    two = in_session(session(clusteredTable__numClusteringColumnsLimit="2"), TableLog(table.store))
    with pytest.raises(AlterRefusedError, match="at most 2 are allowed"):
        cluster_by(two, ["a", "b", "c"])
    assert cluster_by(two, ["a", "b"]) is not None
