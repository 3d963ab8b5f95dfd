"""What is measured is what is written: the log's own bytes, in groups, with one fsync each."""

from __future__ import annotations

from pathlib import Path

import pytest
from durability import GROUP, MOST_MICROS, Cost, costs, fsync_timed, measure, record

from summhay_ray.store import LocalFiles, LogIndex, LogWriter
from summhay_ray.store.log_lines import encode


@pytest.mark.core
def test_a_record_is_an_answer_of_a_kilobyte_and_a_half() -> None:
    assert 1400 <= len(encode(record(1))) <= 1800


@pytest.mark.core
def test_a_group_waits_for_the_disk_once(tmp_path: Path) -> None:
    writer = LogWriter(LocalFiles(tmp_path), "w")
    with fsync_timed() as waits:
        locations = writer.append([record(number) for number in range(GROUP)])
    writer.close()
    assert len(waits) == 1 and len(locations) == GROUP == 64


@pytest.mark.core
def test_what_was_measured_can_be_read(tmp_path: Path) -> None:
    cost = measure(tmp_path, [[record(number) for number in range(3)], [record(3)]])
    assert min(cost.append, cost.bare, cost.fsync) >= 0
    index = LogIndex(LocalFiles(tmp_path))
    index.refresh()
    assert len(index.answers) == 4 and index.damaged == 0
    assert Cost(append=30.0, bare=4.0, fsync=9.0).over_bare == 26.0


@pytest.mark.soak
def test_a_record_costs_at_most_fifty_microseconds_over_a_bare_write() -> None:
    assert costs(20_000, 5).over_bare <= MOST_MICROS
