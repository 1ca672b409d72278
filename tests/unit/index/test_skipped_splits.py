"""Splits that could not be used: recorded, left alone for a while, tried again, never missing silently."""

from __future__ import annotations

import pytest

from support.index_tables import LOG, SCHEMA, RawIndex, adds, created, paths, split
from support.tables import HOUR
from tidegate.errors import OptionError
from tidegate.index.snapshot import IndexSnapshot


def table_with(*names: str) -> RawIndex:
    table = created()
    table.log().append(adds(*names))
    return table


def planned(snapshot: IndexSnapshot) -> list[str]:
    """What a merge may plan with."""
    return sorted(snapshot.without_cooling(snapshot.files()).column("path").to_pylist())


def test_a_skip_says_why_when_and_for_how_long() -> None:
    table = RawIndex()
    table.log().create(SCHEMA, ["day"])
    table.log().append(adds(split("a.split", {"day": "1"})))
    found = table.log().skip("a.split", "Corrupted footer", operation="merge")
    now = table.clock()
    assert table.lines(2) == [
        {
            "skip": {
                "path": "a.split",
                "skipTimestamp": now,
                "reason": "Corrupted footer",
                "operation": "merge",
                "partitionValues": {"day": "1"},
                "size": 100,
                "retryAfter": now + 24 * HOUR,
                "skipCount": 1,
            }
        }
    ]
    assert found.cooling() == {"a.split"}


def test_a_skipped_split_is_still_read_and_only_planning_leaves_it_out() -> None:
    table = table_with("a.split", "b.split")
    found = table.log().skip("a.split", "bad")
    assert paths(found) == ["a.split", "b.split"]
    assert found.num_records == 20
    assert planned(found) == ["b.split"]


def test_a_second_skip_counts_on_and_has_the_newest_reason() -> None:
    table = table_with("a.split", "b.split")
    table.log().skip("a.split", "first")
    table.clock.tick()
    found = table.log().skip("a.split", "second").skips
    assert (found["a.split"].skip_count, found["a.split"].reason) == (2, "second")
    assert "b.split" not in found


def test_a_split_is_tried_again_when_its_cooldown_is_over() -> None:
    table = table_with("a.split")
    log = table.log(skippedFiles__cooldownDuration=2)
    log.skip("a.split", "bad")
    assert table.lines(2)[0]["skip"]["retryAfter"] - table.lines(2)[0]["skip"]["skipTimestamp"] == 2 * HOUR
    table.clock.tick(2 * HOUR - 1)
    assert planned(log.snapshot()) == []
    table.clock.tick(1)
    assert planned(log.snapshot()) == ["a.split"]


def test_a_cooldown_of_zero_lets_it_be_tried_at_once() -> None:
    table = table_with("a.split")
    assert planned(table.log(skippedFiles__cooldownDuration=0).skip("a.split", "bad")) == ["a.split"]


def test_several_splits_are_skipped_in_one_commit() -> None:
    table = table_with("a.split", "b.split", "c.split")
    found = table.log().skip(["a.split", "b.split", "c.split"], "bad")
    assert found.version == 2
    assert len(found.cooling()) == 3


def test_tracking_can_be_switched_off() -> None:
    table = table_with("a.split")
    log = table.log(skippedFiles__trackingEnabled=False)
    assert log.skip("a.split", "bad").version == 1


def test_skips_survive_checkpoints_and_truncation() -> None:
    table = table_with("a.split")
    log = table.log(checkpoint__interval=2)
    log.skip("a.split", "bad")
    log.skip("a.split", "worse")
    log.truncate_history()
    assert [n for n in table.names() if n.endswith(".json")] == [
        "00000000000000000003.checkpoint.json",
        "00000000000000000003.json",
    ]
    assert table.log().snapshot().skips["a.split"].skip_count == 2


@pytest.mark.parametrize("warm", [True, False])
def test_a_removed_split_takes_its_skip_with_it(warm: bool) -> None:
    table = table_with("a.split", "b.split")
    log = table.log()
    log.skip(["a.split", "b.split"], "bad")
    if warm:
        assert len(log.snapshot().skips) == 2
    log.replace(["a.split"], adds("new.split"))
    assert list((log if warm else table.log()).snapshot().skips) == ["b.split"]
    log.overwrite(adds("c.split"))
    assert not (log if warm else table.log()).snapshot().skips


def test_a_skip_of_a_split_that_the_table_never_had_is_kept() -> None:
    table = table_with("a.split")
    table.log().skip("elsewhere.split", "bad")
    (line,) = table.lines(2)
    assert "size" not in line["skip"]
    assert list(table.log().snapshot().skips) == ["elsewhere.split"]


def test_time_travel_sees_the_skips_of_its_version() -> None:
    table = table_with("a.split")
    table.log().skip("a.split", "bad")
    table.log().remove(["a.split"])
    assert [len(table.log().snapshot(version=v).skips) for v in (1, 2, 3)] == [0, 1, 0]


@pytest.mark.parametrize(
    "option",
    [
        {"skippedFiles__cooldownDuration": "soon"},
        {"checkpoint__interval": 0},
        {"protocol__autoUpgrade": "perhaps"},
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_by_name(option: dict[str, object]) -> None:
    (key,) = option
    with pytest.raises(OptionError, match=key.replace("__", ".")):
        RawIndex().log(**option)


def test_keys_are_taken_in_any_case_and_with_or_without_their_prefix() -> None:
    from tidegate.index.log_settings import LogSettings

    found = LogSettings.of({"SPARK.IndexTables.checkpoint.INTERVAL": "7", "protocol.checkenabled": "FALSE"})
    assert (found.checkpoint_interval, found.check_enabled) == (7, False)


def test_the_log_directory_is_the_family_s_own() -> None:
    assert all(i.name.startswith(LOG) for i in table_with("a.split").store.list_from("", recursive=True))


def test_without_tracking_skips_of_others_hold_nothing_back() -> None:
    table = table_with("a.split")
    table.log().skip("a.split", "bad")
    found = table.log(skippedFiles__trackingEnabled=False).snapshot()
    assert (planned(found), list(found.skips)) == (["a.split"], ["a.split"])
