"""Errors while a run's own Ray starts, or another Ray is joined: one clear line, and nothing is left behind."""

from __future__ import annotations

import os
import stat
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import ray

from summhay_ray.engine import Stopped
from summhay_ray.engine.ray.placement import PlacementError
from summhay_ray.engine.ray.session import RAYS_LISTENER, RayMissing, ray_session

pytestmark = pytest.mark.core


def test_an_address_where_nobody_answers_is_said_at_once() -> None:
    with pytest.raises(PlacementError, match="--address 127.0.0.1:1: no Ray head answers there"), ray_session("127.0.0.1:1"):
        pass


def test_a_ray_that_does_not_come_up_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(**_: object) -> None:
        raise OSError("The current node timed out during startup.\nIt may be busy.")

    monkeypatch.setattr(ray, "init", late)
    message = "^Ray does not start: The current node timed out during startup. It may be busy.; "
    with pytest.raises(RayMissing, match=message), ray_session("local"):
        pass


def test_a_persons_own_ray_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[bool] = []
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "shutdown", lambda: ended.append(True))
    with pytest.raises(RayMissing, match="^this process is connected to a Ray already"), ray_session("local"):
        pass
    assert not ended


def test_no_temporary_folder_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    with pytest.raises(RayMissing, match="^Ray has no temporary folder .*'/nowhere/summhay_ray-"), ray_session("local"):
        pass


def test_ctrl_c_while_ray_comes_up_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ended: list[bool] = []

    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("summhay_ray.engine.ray.session.LONGEST_BASE", 999)
    monkeypatch.setattr(ray, "init", interrupted)
    monkeypatch.setattr(ray, "shutdown", lambda: ended.append(True))
    with pytest.raises(KeyboardInterrupt), ray_session("local"):
        pass
    assert ended == [True] and list(tmp_path.iterdir()) == []


def test_a_ray_of_its_own_has_a_short_private_folder_and_starts_in_an_empty_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folders: list[Path] = []

    def begun(_temp_dir: str, **_: object) -> SimpleNamespace:
        folders.append(Path(_temp_dir).parent)
        os.environ["RAY_OF_RAYS_OWN"] = "set"
        assert stat.S_IMODE(folders[-1].stat().st_mode) == 0o700
        assert len(f"{_temp_dir}/session_2026-12-31_23-59-59_999999_4194304/sockets/plasma_store") <= 103
        assert list(Path().iterdir()) == [] and Path().samefile(folders[-1] / "empty")
        return SimpleNamespace(dashboard_url="")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(ray, "init", begun)
    monkeypatch.chdir(tmp_path)
    with ray_session("local"):
        assert Path.cwd() == tmp_path
    assert not folders[0].exists() and "RAY_OF_RAYS_OWN" not in os.environ


def test_sigterm_while_ray_comes_up_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(**_: object) -> None:
        raise Stopped("stopped by SIGTERM")

    monkeypatch.setattr(ray, "init", stopped)
    with pytest.raises(Stopped), ray_session("local"):
        pass


def test_what_ray_prints_of_workers_that_end_is_not_heard(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = "(raylet) Task WorkerActor.answer failed. There are infinite retries"
    monkeypatch.setattr(ray, "init", lambda **_: SimpleNamespace(dashboard_url=""))
    monkeypatch.setattr(ray, "shutdown", lambda: print(told))
    with pytest.raises(KeyboardInterrupt), ray_session("local"):
        listener = threading.Thread(target=print, args=(told,), name=RAYS_LISTENER)
        listener.start()
        listener.join()
        print("of the driver's own")
        raise KeyboardInterrupt
    assert capsys.readouterr().out == "of the driver's own\n"
