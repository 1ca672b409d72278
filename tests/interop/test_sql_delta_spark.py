"""The same SQL on delta-spark and on us: every statement of a script gives the same columns and rows.

What delta-spark answers is kept beside this test (``support.sql_record`` asks for it), so that every run
compares every script without the peer; deep runs ask the peer again. Where we differ on purpose,
``support.sql_scripts.different`` says why, and the difference must be there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from support.delta_spark import delta_spark
from support.session import shared_session
from support.sql_compare import by_peer, by_us, differences
from support.sql_record import kept
from support.sql_scripts import DIFFERENT, SCRIPTS

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return shared_session()


@pytest.fixture(scope="module", name="kept")
def kept_answers() -> dict[str, Any]:
    return kept()


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_answers_as_delta_spark_does(
    spark: SparkSession, kept: dict[str, Any], tmp_path: Path, name: str
) -> None:
    script = SCRIPTS[name]
    assert [k["statement"] for k in kept[name]] == script, (
        "the script has changed: ask the peer again (support.sql_record)"
    )
    ours = by_us(spark, script, str(tmp_path))
    assert differences(script, [k["answer"] for k in kept[name]], ours, DIFFERENT.get(name)) == []


@pytest.mark.deep
@pytest.mark.peers
@pytest.mark.parametrize("name", SCRIPTS)
def test_what_is_kept_is_what_the_peer_says(kept: dict[str, Any], tmp_path: Path, name: str) -> None:
    assert by_peer(delta_spark(), SCRIPTS[name], str(tmp_path)) == [k["answer"] for k in kept[name]]
