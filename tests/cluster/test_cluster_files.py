"""The files of cluster/, Kubernetes' apart, agree with Ray's packaged schema and our own sources."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

pytestmark = pytest.mark.core

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "cluster"


def aws() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((CLUSTER / "aws.yaml").read_text(encoding="utf-8"))
    return loaded


def test_aws_is_what_rays_autoscaler_takes() -> None:
    import ray.autoscaler
    from ray.autoscaler.sdk import fillout_defaults

    schema = json.loads((Path(ray.autoscaler.__file__).parent / "ray-schema.json").read_text(encoding="utf-8"))
    config = aws()
    jsonschema.validate(config, schema)
    filled = fillout_defaults(config)
    assert filled["head_node_type"] == "head" and set(filled["available_node_types"]) == set(config["available_node_types"])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(config | {"max_worker": 1}, schema)


def test_aws_heads_are_bought_and_workers_are_spot() -> None:
    types = aws()["available_node_types"]
    markets = {name: kind["node_config"].get("InstanceMarketOptions", {}).get("MarketType") for name, kind in types.items()}
    assert markets == {"head": None, "spot_worker": "spot", "gpu_worker": "spot"}
    assert types["gpu_worker"]["resources"]["GPU"] == 1
    assert sum(kind.get("max_workers", 0) for kind in types.values()) == aws()["max_workers"] == 14 + 2
    assert aws()["idle_timeout_minutes"] == 5


def test_aws_nodes_have_one_image_a_closed_metadata_service_and_a_disk() -> None:
    images = set()
    for kind in aws()["available_node_types"].values():
        node = kind["node_config"]
        images.add(node["ImageId"])
        assert node["MetadataOptions"]["HttpTokens"] == "required" and node["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
        (disk,) = node["BlockDeviceMappings"]
        assert disk["Ebs"]["Encrypted"] and disk["Ebs"]["DeleteOnTermination"] and disk["Ebs"]["VolumeSize"] >= 100
    # All nodes have one Python: 3.12 of Ubuntu 24.04, which the locks cover.
    (image,) = images
    assert image.endswith("ubuntu-24.04/latest/ami-id")


def test_aws_nodes_want_a_token_and_install_what_the_locks_have() -> None:
    config = aws()
    assert config["file_mounts"]["~/.ray/auth_token"] == "~/.ray/auth_token"
    commands = config["setup_commands"]
    assert any("export RAY_AUTH_MODE=token" in command for command in commands)
    assert "--setenv=RAY_AUTH_MODE=$RAY_AUTH_MODE" in config["worker_start_ray_commands"][-1]
    for command in (command for command in commands if "pip install" in command):
        own, torch = command.endswith("--no-deps --no-build-isolation ."), "torch==" in command
        assert own or torch or "--require-hashes" in command, command
        for lock in re.findall(r"requirements/([\w.]+lock)", command):
            assert (ROOT / "requirements" / lock).exists()


@pytest.mark.parametrize("which", ["head_start_ray_commands", "worker_start_ray_commands"])
def test_without_our_variables_the_commands_are_plain(which: str, tmp_path: Path) -> None:
    """The commands in bash on AWS, where no SUMMHAY_ variable is set."""
    said = []
    for command in aws()[which]:
        script = f'ulimit() {{ :; }}; sudo() {{ echo sudo "$@"; }}; ray() {{ echo ray "$@"; }}; {command}'
        done = subprocess.run(
            ["bash", "-c", script],
            env={"HOME": str(tmp_path), "RAY_HEAD_IP": "10.0.0.1"},
            capture_output=True,
            text=True,
            check=True,
        )
        said.append(shlex.split(done.stdout))
    assert said[0] == ["ray", "stop"]
    started = said[-1]
    assert {"ray", "start", "--object-manager-port=8076", "--disable-usage-stats"} <= set(started)
    if which.startswith("head"):
        assert {"--head", "--port=6379", f"--autoscaling-config={tmp_path}/ray_bootstrap_config.yaml"} <= set(started)
    else:
        # At the machine's end, SIGTERM goes to `ray start --block`, which has more time than Ray's draining takes.
        service, ray_start = started[: started.index("ray")], started[started.index("ray") :]
        assert service[:2] == ["sudo", "systemd-run"] and {"KillMode=mixed", "TimeoutStopSec=60"} <= set(service)
        assert {"--address=10.0.0.1:6379", "--block"} <= set(ray_start)


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"loaded_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("code", "again", "settled"),
    [(0, 0, 0), (1, 0, 1), (2, 0, 2), (3, 0, 3), (3, 2, 3), (6, 0, 6), (4, 0, 0), (4, 2, 4), (143, 0, 143)],
)
def test_a_job_settles_a_finished_run_and_never_an_unfinished_one(
    monkeypatch: pytest.MonkeyPatch, code: int, again: int, settled: int
) -> None:
    run = load(ROOT / "jobs" / "run.py")

    def main(_: list[str]) -> None:
        print(json.dumps({"tried_again": again}))
        raise SystemExit(code)

    monkeypatch.setattr(run, "main", main)
    assert (run.job(["spec.yaml"]), run.job(["spec.yaml", "--settle"])) == (code, settled)


def test_the_image_has_torch_of_the_device_that_is_asked_for() -> None:
    (torch,) = [rest for name, rest in instructions() if name == "RUN" and "torch==" in rest]
    script = f'pip() {{ echo pip "$@"; }}; {torch}'
    done = {
        device: subprocess.run(["bash", "-c", script], env={"DEVICE": device}, capture_output=True, text=True)
        for device in ("cpu", "cuda", "tpu")
    }
    assert ("ARG", "DEVICE=cpu") in instructions()
    assert "/whl/cpu" in done["cpu"].stdout and "torch==" in done["cuda"].stdout and "/whl/" not in done["cuda"].stdout
    assert done["tpu"].returncode == 1 and "cpu or cuda" in done["tpu"].stderr
    pins = {pin for file in ("Containerfile", "aws.yaml") for pin in re.findall(r"torch==([\d.]+)", (CLUSTER / file).read_text())}
    assert pins == set(re.findall(r"TORCH \?= ([\d.]+)", (ROOT / "Makefile").read_text(encoding="utf-8")))


def test_runtime_environments_are_rays() -> None:
    from ray.runtime_env import RuntimeEnv

    written = yaml.safe_load((CLUSTER / "runtime_env.yaml").read_text(encoding="utf-8"))
    (rayjob,) = yaml.safe_load_all((CLUSTER / "kuberay/base/rayjob.yaml").read_text(encoding="utf-8"))
    in_pods = yaml.safe_load(rayjob["spec"]["runtimeEnvYAML"])
    assert RuntimeEnv(**written)["env_vars"] == RuntimeEnv(**in_pods)["env_vars"] == {"RAY_JOB_STOP_WAIT_TIME_S": "25"}


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n", " ", (CLUSTER / "Containerfile").read_text(encoding="utf-8"))
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines]


def test_the_image_is_pinned_unprivileged_and_made_of_what_exists() -> None:
    found = instructions()
    assert {name for name, _ in found} <= {"FROM", "RUN", "WORKDIR", "COPY", "ENV", "USER", "ARG"}
    assert re.fullmatch(r"python:3\.1[1-4]\.\d+-slim-\w+@sha256:[0-9a-f]{64}", found[0][1])
    assert found[-1] == ("USER", "1000")
    for name, rest in found:
        if name == "COPY":
            assert all((ROOT / source).exists() for source in rest.split()[:-1]), rest
        assert not re.search(r"KEY|TOKEN|SECRET|PASSWORD", rest)
    copied = {source for name, rest in found if name == "COPY" for source in rest.split()[:-1]}
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert set(re.findall(r'"(LICENSE)"|readme = "([^"]+)"', project)) and {"LICENSE", "README.md", "summhay_ray"} <= copied


def test_one_ray_everywhere() -> None:
    """All nodes of a cluster must run the same Ray."""
    locks = [(ROOT / "requirements" / name).read_text(encoding="utf-8") for name in ("image.lock", "core.lock")]
    pins = {pin for text in locks for pin in re.findall(r"^ray(?:\[[a-z,]+\])?==([\d.]+)", text, re.M)}
    (rayjob,) = yaml.safe_load_all((CLUSTER / "kuberay/base/rayjob.yaml").read_text(encoding="utf-8"))
    assert pins == {rayjob["spec"]["rayClusterSpec"]["rayVersion"]}
