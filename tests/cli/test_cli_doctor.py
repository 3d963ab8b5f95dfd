"""`doctor` prints one line per check, and exits with code 1 if a check fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Said, write_spec

from summhay_ray import api
from summhay_ray.engine import Check
from summhay_ray.llm import PROVIDERS, needed_variables

pytestmark = pytest.mark.core

Cli = Callable[..., Said]
SPEC = {"haystacks": ["sample/news"], "retrievers": ["bm25"], "summarizers": ["openai/gpt-4o"]}


def test_a_ready_machine(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "sk-secret-secret-secret")
    said = cli("doctor", "--store", tmp_path / "store", "--json")
    checks = {check["name"]: check for check in said.document["checks"]}
    assert said.code == 0
    assert {"store", "ray", "tokens", "key openai", "key anthropic", "key cohere", "offline models"} <= set(checks)
    assert all(check["ok"] is True for check in checks.values() if check["needed"])
    assert checks["key groq"]["message"] == "GROQ_API_KEY is set" and "key mistral" not in checks
    assert "offline/lead" in checks["offline models"]["message"]
    assert checks["store"]["message"] == f"{tmp_path / 'store'}: nothing is there yet, the first run makes it"
    assert cli("doctor", "--store", tmp_path / "store").out.count("\n") == len(checks)
    assert not (tmp_path / "store").exists()


def test_a_missing_key_is_a_failure_and_a_key_is_never_shown(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = write_spec(tmp_path, SPEC)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    said = cli("doctor", spec, "--store", tmp_path / "store")
    assert said.code == 1
    (bad,) = [line for line in said.out.splitlines() if line.startswith("BAD")]
    assert bad.split()[:3] == ["BAD", "key", "openai/gpt-4o"]
    mend = "export it, or the path of a file that holds it as OPENAI_API_KEY_FILE, where the workers run"
    assert bad.endswith(f"OPENAI_API_KEY is not set; {mend}")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-secret-secret")
    said = cli("doctor", spec, "--store", tmp_path / "store")
    assert said.code == 0
    assert "OPENAI_API_KEY is set" in said.out
    assert "sk-secret" not in said.out + said.err


def test_a_store_that_is_none_is_a_failure(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = cli("doctor", "--store", tmp_path / "file")
    assert said.code == 1
    assert said.out.startswith("BAD  store")


@pytest.mark.parametrize("by", ["uri", "spec"])
def test_a_bucket_is_asked_and_what_is_wrong_with_it_is_a_failure(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDTESTTESTTESTTEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret-of-anybody")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    nobody = "http://127.0.0.1:1"
    spec = write_spec(tmp_path, {**SPEC, "summarizers": ["offline/lead"], **({"endpoint_url": nobody} if by == "spec" else {})})
    said = cli("doctor", spec, "--store", "s3://bucket/runs" + (f"?endpoint_url={nobody}" if by == "uri" else ""))
    (bad,) = [line for line in said.out.splitlines() if line.startswith("BAD")]
    assert said.code == 1 and bad.split()[:2] == ["BAD", "store"] and nobody in bad and "not-a-secret" not in said.out


def test_the_doctor_says_ok_of_no_key_that_is_not_set(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (name for provider in PROVIDERS for name in needed_variables(provider)):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    checks = {one.name: one for one in api.doctor()}
    assert checks["key openai"] == Check("key openai", False, "OPENAI_API_KEY is not set; only models of openai need it", False)
    assert checks["key anthropic"].ok
    said = cli("doctor")
    assert said.code == 0 and "-    key openai" in said.out and "ok   key anthropic" in said.out
