"""Places that tasks write to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidegate.spark.places import Disk


def test_a_folder_that_is_taken_away_before_its_first_file_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    make = os.makedirs

    def taken_away(path: str, exist_ok: bool = False) -> None:
        make(path, exist_ok=exist_ok)
        calls.append(path)
        if len(calls) == 1:
            os.rmdir(path)

    monkeypatch.setattr(os, "makedirs", taken_away)
    with Disk(str(tmp_path)).open_output("p=1/f") as file:
        file.write(b"x")
    assert (tmp_path / "p=1" / "f").read_bytes() == b"x"
    assert len(calls) == 2
