"""A run is sent as a job, to a job server that the test starts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
import socket
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from job_server import Server, details, server, submit
from local_http import Answer, serving
from ray.job_submission import JobDetails

from summhay_ray import api
from summhay_ray.engine import RayJob
from summhay_ray.engine.submit import JobEnd, JobLost
from summhay_ray.errors import UserError

__all__ = ["server"]
pytestmark = pytest.mark.core

URL = "http://127.0.0.1:8265"
SPEC = {"haystacks": ["sample/news"], "retrievers": ["keywords"], "summarizers": ["offline/lead"]}
RUN = api.load(SPEC).run_id


def sent_to(folder: Path, budget: float | None = None, **more: Any) -> RayJob:
    """The job of the spec, with its store in a folder."""
    return api.submit(SPEC, URL, str(folder / "a store"), budget=budget, **more)


def test_a_job_is_summhay_run_with_the_code_that_checked_it(server: Server, tmp_path: Path) -> None:
    job = api.submit(SPEC, "127.0.0.1:8265", str(tmp_path / "a store"), budget=0.1, compat="release")
    (sent,) = server.sent
    assert (job.job, job.run, job.address, job.attached) == (f"{RUN}-1", RUN, URL, False)
    words = shlex.split(sent["entrypoint"])
    assert words[:5] == ["python", "-m", "summhay_ray.cli", "run", "summhay-spec.yaml"]
    assert words[5:] == [*("--address", "auto", "--store", str(tmp_path / "a store"), "--budget", "0.1", "--compat", "release")]
    assert list(server.files) == ["summhay-spec.yaml"]
    assert [Path(module).name for module in sent["runtime_env"]["py_modules"]] == ["summhay_ray"]
    assert sent["runtime_env"]["env_vars"] == {"RAY_JOB_STOP_WAIT_TIME_S": "25"}
    assert not Path(sent["runtime_env"]["working_dir"]).exists()
    assert all(isinstance(value, str) for value in sent["metadata"].values())


def test_the_same_job_is_watched_and_not_sent_again(server: Server, tmp_path: Path) -> None:
    first = sent_to(tmp_path)
    again = sent_to(tmp_path)
    assert (again.job, again.attached, len(server.sent)) == (first.job, True, 1)


@pytest.mark.parametrize("status", ["SUCCEEDED", "FAILED", "STOPPED"])
def test_a_job_that_ended_is_sent_again(server: Server, tmp_path: Path, status: str) -> None:
    sent_to(tmp_path)
    server.jobs = [details(f"{RUN}-1", status, metadata=server.sent[0]["metadata"])]
    assert sent_to(tmp_path).job == f"{RUN}-2"


def test_another_budget_takes_the_run_over_and_says_so(server: Server, tmp_path: Path) -> None:
    sent_to(tmp_path)
    second = sent_to(tmp_path, 5.0)
    assert (second.job, second.attached) == (f"{RUN}-2", False)
    assert f"job {RUN}-1 runs this run with another budget" in second.notes[-1]
    elsewhere = sent_to(tmp_path / "other")
    assert not elsewhere.attached and not any("takes the run over" in note for note in elsewhere.notes)


def test_of_two_who_submit_at_once_one_watches_the_others_job(server: Server, tmp_path: Path) -> None:
    server.first = lambda asked: server.jobs.append(details(asked["submission_id"], metadata=asked["metadata"]))
    job = sent_to(tmp_path)
    assert (job.job, job.attached, server.sent) == (f"{RUN}-1", True, [])


def test_a_server_that_takes_no_job_says_why(server: Server, tmp_path: Path) -> None:
    def refuse(_: Any) -> None:
        raise RuntimeError("Request failed with status code 500:\nNo available agent")

    server.first = refuse
    with pytest.raises(UserError, match="status code 500: No available agent$"):
        sent_to(tmp_path)


def test_a_run_of_one_process_is_no_job(server: Server, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="^executor: inline runs in one process, but a job runs on a cluster"):
        sent_to(tmp_path, overrides=["executor=inline"])
    assert server.sent == []


def test_addresses_that_are_none() -> None:
    for host in (
        "",
        "ftp://head:8265",
        "http://",
        "http://me:secret@head:8265",
        "http://head:0",
        "http://head:8265/?a",
        "http://he ad",
    ):
        with pytest.raises(UserError, match="^--address: expected the URL") as refused:
            submit.job_url(host)
        assert "secret" not in str(refused.value)


def test_a_relative_store_is_this_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    uri, bucket, notes = submit.store_for_job("./store", URL)
    assert (uri, bucket) == (str(tmp_path / "store"), None) and "every node must see that folder" in notes[0]
    assert submit.store_for_job("/shared/store", "http://head:8265")[0] == "/shared/store"
    with pytest.raises(UserError, match=r"^store './store' is a folder of this machine"):
        submit.store_for_job("./store", "http://head:8265")


def answering(status: int, body: bytes) -> contextlib.AbstractContextManager[str]:
    """A server that gives this answer to any request."""
    return serving(lambda _: Answer(body, status))


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (200, b"<html>hello</html>", "not a Ray dashboard (JSONDecodeError)"),
        (200, b"[]", "not a Ray dashboard (TypeError)"),
        (200, b'{"version": "4"}', "not a Ray dashboard (KeyError)"),
        (404, b"", "not a Ray dashboard (HTTP 404)"),
        (200, b'{"ray_version": "2.49.2"}', "the cluster runs Ray 2.49.2; a run needs 2.50 or later there"),
    ],
)
def test_what_is_no_job_server_of_ours(status: int, body: bytes, said: str) -> None:
    with answering(status, body) as url, pytest.raises(UserError) as refused:
        submit.reach(url)
    assert said in str(refused.value) and str(refused.value).startswith(f"--address {url}: ")


def test_another_version_of_ray_is_reported_and_used() -> None:
    with answering(200, b'{"ray_version": "2.99.0"}') as url:
        assert "the cluster runs Ray 2.99.0, this machine" in submit.reach(url)[0]
    import ray

    with answering(200, json.dumps({"ray_version": ray.__version__}).encode()) as url:
        assert submit.reach(url) == []
    with answering(401, b"") as url:
        assert submit.reach(url) == []


def test_no_proxy_comes_between(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.2:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with answering(200, json.dumps({"ray_version": ray.__version__}).encode()) as url:
        assert submit.reach(url) == []
        # It requests the version, too.
        submit.job_client(url)
    monkeypatch.setenv("https_proxy", "socks5://127.0.0.2:1")
    with pytest.raises(UserError, match="--address https://head.invalid: https_proxy names a socks5 proxy"):
        submit.reach("https://head.invalid")


def test_nothing_listens_or_speaks_http() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UserError, match=r"no job server answers there \(.*refused\)"):
            submit.reach(url)
        taken.listen()

        def hang_up() -> None:
            connection, _ = taken.accept()
            connection.recv(1000)
            connection.close()

        threading.Thread(target=hang_up, daemon=True).start()
        with pytest.raises(UserError, match="not a Ray dashboard"):
            submit.reach(url)


@dataclass
class Talker:
    """A job's log that breaks off, and the job's end."""

    pieces: list[list[str | Exception]]
    ends: list[JobDetails | Exception]

    async def tail_job_logs(self, job: str) -> AsyncIterator[str]:
        for piece in self.pieces.pop(0) if len(self.pieces) > 1 else self.pieces[0]:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    def get_job_info(self, job: str) -> JobDetails:
        found = self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
        if isinstance(found, Exception):
            raise found
        return found


def follow(monkeypatch: pytest.MonkeyPatch, talker: Talker) -> tuple[JobEnd, str]:
    monkeypatch.setattr(submit, "POLL_S", 0.0)
    said: list[str] = []
    job = RayJob("j-1", "r1", URL, "/s", False, (), talker)
    return job.follow(said.append), "".join(said)


def test_an_interrupted_log_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = [["one ", "two", RuntimeError("closed")], ["one two thr", OSError()], ["one ", "two three"], ["one two three four"]]
    ends = [details("j-1"), details("j-1", "SUCCEEDED", driver_exit_code=0)]
    end, said = follow(monkeypatch, Talker(pieces, ends))
    assert (end, said) == (JobEnd("SUCCEEDED", 0), "one two three four")


def test_a_death_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    message = "Job entrypoint command failed with exit code -9, last available logs (truncated to 20,000 chars):\nsecret\n"
    end, _ = follow(monkeypatch, Talker([[]], [details("j-1", "FAILED", driver_exit_code=-9, message=message)]))
    assert (end.exit_code, "\n" in end.message, "secret" in end.message) == (1, False, False)
    assert end.message.startswith("job j-1 ended FAILED: Job entrypoint command failed with exit code -9; what was answered")
    stopped, _ = follow(monkeypatch, Talker([[]], [details("j-1", "STOPPED")]))
    assert (stopped.exit_code, "submit again" in stopped.message) == (1, True)


def test_a_server_that_is_gone_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submit, "LOST_S", -1.0)
    with pytest.raises(JobLost, match="no word of job j-1 .* look: summhay status r1 --store /s") as lost:
        follow(monkeypatch, Talker([[OSError("gone")]], [details("j-1")]))
    assert lost.value.exit_code == 1


def test_a_notebook_has_a_loop_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    talker = Talker([["all"]], [details("j-1", "SUCCEEDED", driver_exit_code=0)])

    async def notebook() -> tuple[JobEnd, str]:
        return follow(monkeypatch, talker)

    assert asyncio.run(notebook())[1] == "all"


def test_ray_s_own_variables_do_not_win_over_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "http://127.0.0.1:1")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with answering(200, b'{"ray_version": "2.99.0"}') as url:
        assert submit.job_client(url).get_address() == url
    assert submit.os.environ["RAY_ADDRESS"] == "http://127.0.0.1:1"
