"""The files of cluster/ against what their tools publish: Ray's packaged schema, KubeRay's documented fields, our own sources."""

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

from summhay_ray.engine.ray.worker_actor import LEAVE_S, LOOK_EVERY_S
from summhay_ray.engine.run.execution import DRAIN_S

pytestmark = pytest.mark.core

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "cluster"

KUBERAY: dict[str, dict[str, str]] = yaml.safe_load(Path(__file__).with_name("kuberay_v1.yaml").read_text(encoding="utf-8"))
REQUIRED = {
    "RayClusterSpec": ["headGroupSpec"],
    "HeadGroupSpec": ["template"],
    "WorkerGroupSpec": ["groupName", "maxReplicas", "template"],
    "NetworkPolicySpec": ["podSelector"],
}


def schema_of(kind: str) -> dict[str, Any]:
    """JSON schema of a type's name in the table above."""
    if kind.endswith("*"):
        return {"type": "array", "items": schema_of(kind[:-1])}
    if "|" in kind:
        return {"enum": kind.split("|")}
    if kind == "strings":
        return {"type": "object", "additionalProperties": {"type": "string"}}
    if kind not in KUBERAY:
        return {"type": kind}
    fields = {name: schema_of(found) for name, found in KUBERAY[kind].items()}
    return {"type": "object", "properties": fields, "required": REQUIRED.get(kind, []), "additionalProperties": False}


def aws() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((CLUSTER / "aws.yaml").read_text(encoding="utf-8"))
    return loaded


def kubernetes(kind: str) -> dict[str, Any]:
    """The object of this kind in kuberay.yaml, of which there is one."""
    documents = yaml.safe_load_all((CLUSTER / "kuberay.yaml").read_text(encoding="utf-8"))
    (found,) = [one for one in documents if one["kind"] == kind]
    return dict(found)


def rayjob() -> dict[str, Any]:
    return kubernetes("RayJob")


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


@pytest.mark.parametrize("which", ["head_start_ray_commands", "worker_start_ray_commands"])
def test_without_our_variables_the_commands_are_plain(which: str, tmp_path: Path) -> None:
    """What bash makes of them on AWS, where no SUMMHAY_ variable is set."""
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
        # SIGTERM at the end of the machine goes to `ray start --block`, which has more time than Ray's draining takes.
        service, ray_start = started[: started.index("ray")], started[started.index("ray") :]
        assert service[:2] == ["sudo", "systemd-run"] and {"KillMode=mixed", "TimeoutStopSec=60"} <= set(service)
        assert {"--address=10.0.0.1:6379", "--block"} <= set(ray_start)


@pytest.mark.parametrize(
    ("kind", "version", "wrong"),
    [
        ("RayJob", "ray.io/v1", [("backofLimit", 3), ("rayClusterSpec", {}), ("submissionMode", "Job")]),
        ("NetworkPolicy", "networking.k8s.io/v1", [("ingres", []), ("policyTypes", ["In"])]),
    ],
)
def test_kubernetes_objects_have_published_fields_only(kind: str, version: str, wrong: list[tuple[str, Any]]) -> None:
    written = kubernetes(kind)
    assert (written["apiVersion"], set(written)) == (version, {"apiVersion", "kind", "metadata", "spec"})
    schema = schema_of(f"{kind}Spec")
    jsonschema.validate(written["spec"], schema)
    for name, value in wrong:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(written["spec"] | {name: value}, schema)


def test_ray_wants_a_token_and_its_ports_are_closed_to_other_pods() -> None:
    cluster, policy = rayjob()["spec"]["rayClusterSpec"], kubernetes("NetworkPolicy")["spec"]
    assert cluster["authOptions"] == {"mode": "token"} and policy["policyTypes"] == ["Ingress"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    assert all(
        policy["podSelector"]["matchLabels"].items() <= group["template"]["metadata"]["labels"].items() for group in groups
    )
    assert "serviceType" not in groups[0] and "enableIngress" not in groups[0]
    among_themselves, dashboard, metrics = policy["ingress"]
    assert among_themselves == {"from": [{"podSelector": policy["podSelector"]}]}
    # Only the pod of this job and the operator's own.
    peers = [peer["podSelector"]["matchLabels"] for peer in dashboard["from"]]
    assert peers == [{"job-name": rayjob()["metadata"]["name"]}, {"app.kubernetes.io/name": "kuberay-operator"}]
    assert [rule["ports"] for rule in (dashboard, metrics)] == [[{"protocol": "TCP", "port": port}] for port in (8265, 8080)]


def test_workers_are_beside_the_head_and_selectors_name_their_cloud() -> None:
    cluster = rayjob()["spec"]["rayClusterSpec"]
    assert cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    head, *workers = pods()
    assert "tolerations" not in head
    clouds = {"karpenter.sh/capacity-type", "cloud.google.com/gke-spot", "kubernetes.azure.com/scalesetpriority"}
    text = (CLUSTER / "kuberay.yaml").read_text(encoding="utf-8")
    (says,) = [line for line in text.splitlines() if "EKS" in line and "GKE" in line and "AKS" in line and "{" in line]
    assert "Karpenter" in says and all(label in says for label in clouds - {"karpenter.sh/capacity-type"})
    for worker in workers:
        assert set(worker["nodeSelector"]) <= clouds and clouds <= {one["key"] for one in worker["tolerations"]}


def pods() -> list[dict[str, Any]]:
    cluster = rayjob()["spec"]["rayClusterSpec"]
    return [group["template"]["spec"] for group in [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]]


def test_pods_get_time_to_drain_and_mounts_that_exist() -> None:
    for pod in pods():
        (container,) = pod["containers"]
        # Ray drains a node whose pod is taken away; longer than its workers take, shorter than the pod has.
        (drain,) = [one["value"] for one in container["env"] if one["name"] == "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"]
        assert pod["terminationGracePeriodSeconds"] - 5 > float(drain) > DRAIN_S + 2 * LEAVE_S + LOOK_EVERY_S
        assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
        assert container["securityContext"]["runAsNonRoot"] is True
        assert container["resources"]["requests"] == container["resources"]["limits"]


def test_keys_come_as_files_or_from_secrets() -> None:
    for pod in pods():
        mounts = [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]]
        for variable in pod["containers"][0]["env"]:
            if variable["name"].endswith("_FILE"):
                assert any(variable["value"].startswith(f"{mount}/") for mount in mounts)
            elif not variable["name"].startswith("RAY_"):
                assert set(variable["valueFrom"]) == {"secretKeyRef"}
    assert not re.search(r"sk-|AKIA", "".join(file.read_text(encoding="utf-8") for file in CLUSTER.iterdir() if file.is_file()))


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"loaded_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_kubernetes_runs_is_a_spec_and_a_command_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    from summhay_ray import api

    spec = api.load(yaml.safe_load(kubernetes("ConfigMap")["data"]["spec.yaml"])).spec
    assert spec.name == "quickstart"
    python, script, path, *options = shlex.split(rayjob()["spec"]["entrypoint"])
    assert (python, script, path) == ("python", "/home/summhay/jobs/run.py", "/etc/summhay/spec/spec.yaml")
    run = load(ROOT / "jobs" / "run.py")
    asked: list[list[str]] = []
    monkeypatch.setattr(run, "main", asked.append)
    assert run.job([path, *options]) == run.job([path]) == 0
    assert asked[0] == ["run", path, "--store", "s3://BUCKET/PREFIX", "--budget", "20", "--json", "--address", "auto"]
    assert asked[1] == ["run", path, "--address", "auto"]


@pytest.mark.parametrize(
    ("code", "again", "settled"), [(0, 0, 0), (1, 0, 1), (3, 0, 3), (3, 2, 3), (4, 0, 0), (4, 2, 4), (143, 0, 143)]
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


def test_runtime_environments_are_rays() -> None:
    from ray.runtime_env import RuntimeEnv

    written = yaml.safe_load((CLUSTER / "runtime_env.yaml").read_text(encoding="utf-8"))
    in_pods = yaml.safe_load(rayjob()["spec"]["runtimeEnvYAML"])
    assert RuntimeEnv(**written)["env_vars"] == RuntimeEnv(**in_pods)["env_vars"] == {"RAY_JOB_STOP_WAIT_TIME_S": "25"}


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n", " ", (CLUSTER / "Containerfile").read_text(encoding="utf-8"))
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines]


def test_the_image_is_pinned_unprivileged_and_made_of_what_exists() -> None:
    found = instructions()
    assert {name for name, _ in found} <= {"FROM", "RUN", "WORKDIR", "COPY", "ENV", "USER"}
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
    """Nodes of one cluster must run one Ray."""
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in ("cluster/aws.yaml", "requirements/image.lock")]
    pins = {pin for text in texts for pin in re.findall(r"\bray(?:\[data,default\])?==([\d.]+)", text)}
    assert pins == {rayjob()["spec"]["rayClusterSpec"]["rayVersion"]}
    assert len(pins) == 1
