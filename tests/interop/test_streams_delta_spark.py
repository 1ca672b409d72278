"""A stream that moves between delta-spark and us with its checkpoint, in both directions."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidegate
from support.delta_spark import DeltaSpark, delta_spark
from support.session import shared_session
from support.streams import into, source

pytestmark = [pytest.mark.spark, pytest.mark.peers]


@pytest.fixture(scope="module")
def peer() -> DeltaSpark:
    return delta_spark()


def _streamed_there(peer: DeltaSpark, numbers: str, table: str, checkpoint: str) -> None:
    peer.run(
        f"frame = spark.readStream.format('delta').option('maxFilesPerTrigger', 2).load({numbers!r})\n"
        f"writer = frame.writeStream.format('delta').option('checkpointLocation', {checkpoint!r})\n"
        f"writer.trigger(availableNow=True).start({table!r}).awaitTermination()\n"
        "None"
    )


def test_a_stream_moves_over_with_its_checkpoint_and_back(peer: DeltaSpark, tmp_path: Path) -> None:
    spark = shared_session()
    numbers, table, checkpoint = (str(tmp_path / name) for name in ("numbers", "table", "checkpoint"))

    def add(first: int) -> None:
        spark.range(first, first + 3, 1, 3).write.format("delta").mode("append").save(numbers)

    add(0)
    _streamed_there(peer, numbers, table, checkpoint)
    add(3)
    into(source(spark, numbers, maxFilesPerTrigger=2), table, checkpoint)
    add(6)
    _streamed_there(peer, numbers, table, checkpoint)
    rows = sorted(r.id for r in spark.read.format("delta").load(table).collect())
    assert rows == list(range(9))
    # One query throughout: both sides count its batches as one application.
    [query] = tidegate.open(table).transactions.values()
    assert query.version == tidegate.open(table).version == 5
