"""The manifests of cluster/kuberay/ agree with the published fields, the pod security standard, and our metrics and commands."""

from __future__ import annotations

import copy
import functools
import importlib.util
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from pod_security import violations

from summhay_ray import api
from summhay_ray.engine.ray.ledger_actor import FIGURES
from summhay_ray.engine.ray.worker_actor import LEAVE_S, LOOK_EVERY_S
from summhay_ray.engine.run.execution import DRAIN_S

pytestmark = pytest.mark.core

ROOT = Path(__file__).resolve().parents[2]
KUBERNETES = ROOT / "cluster" / "kuberay"

FIELDS: dict[str, dict[str, str]] = yaml.safe_load(Path(__file__).with_name("kuberay_v1.yaml").read_text(encoding="utf-8"))
REQUIRED = {
    "RayClusterSpec": ["headGroupSpec"],
    "HeadGroupSpec": ["template"],
    "WorkerGroupSpec": ["groupName", "maxReplicas", "template"],
    "NetworkPolicySpec": ["podSelector"],
    "PodMonitorSpec": ["selector"],
}
API_TOKEN_AT = "/var/run/secrets/kubernetes.io/serviceaccount"


def schema_of(kind: str) -> dict[str, Any]:
    """The JSON schema of a type in the table of fields."""
    if kind.endswith("*"):
        return {"type": "array", "items": schema_of(kind[:-1])}
    if kind == "Always" or "|" in kind:
        return {"enum": kind.split("|")}
    if kind == "strings":
        return {"type": "object", "additionalProperties": {"type": "string"}}
    if kind not in FIELDS:
        return {"type": kind}
    fields = {name: schema_of(found) for name, found in FIELDS[kind].items()}
    return {"type": "object", "properties": fields, "required": REQUIRED.get(kind, []), "additionalProperties": False}


@functools.cache
def manifests(folder: str) -> list[dict[str, Any]]:
    """The objects that a kustomization lists as its resources."""
    listed = yaml.safe_load((KUBERNETES / folder / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    texts = [(KUBERNETES / folder / name).read_text(encoding="utf-8") for name in listed]
    return [found for text in texts for found in yaml.safe_load_all(text)]


def named(kind: str) -> dict[str, dict[str, Any]]:
    """Name -> spec, of the base's objects of this kind."""
    return {one["metadata"]["name"]: one.get("spec", {}) for one in manifests("base") if one["kind"] == kind}


def rayjob() -> dict[str, Any]:
    return named("RayJob")["summhay"]


def templates() -> dict[str, dict[str, Any]]:
    """The templates of the run's pods; the head's with the autoscaler's container, as KubeRay adds it."""
    job = rayjob()
    cluster = job["rayClusterSpec"]
    options = {name: cluster["autoscalerOptions"][name] for name in ("securityContext", "volumeMounts")}
    head = copy.deepcopy(cluster["headGroupSpec"]["template"])
    head["spec"]["containers"].append({"name": "autoscaler", **options})
    workers = {group["groupName"]: group["template"] for group in cluster["workerGroupSpecs"]}
    return {"head": head, **workers, "submitter": job["submitterPodTemplate"]}


PODS = ("head", "spot", "gpu", "submitter")
NODES = PODS[:3]


@pytest.mark.parametrize(
    ("folder", "kind", "version", "wrong"),
    [
        ("base", "RayJob", "ray.io/v1", [("backofLimit", 3), ("rayClusterSpec", {}), ("submissionMode", "Job")]),
        ("base", "NetworkPolicy", "networking.k8s.io/v1", [("egres", []), ("policyTypes", ["In"]), ("egress", [{"form": []}])]),
        ("monitoring", "PodMonitor", "monitoring.coreos.com/v1", [("podMetricEndpoints", []), ("selector", [])]),
    ],
)
def test_kubernetes_objects_have_published_fields_only(
    folder: str, kind: str, version: str, wrong: list[tuple[str, Any]]
) -> None:
    schema = schema_of(f"{kind}Spec")
    found = [one for one in manifests(folder) if one["kind"] == kind]
    assert found
    for written in found:
        assert (written["apiVersion"], set(written)) == (version, {"apiVersion", "kind", "metadata", "spec"})
        jsonschema.validate(written["spec"], schema)
        for name, value in wrong:
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate(written["spec"] | {name: value}, schema)


@pytest.mark.parametrize("pod", PODS)
def test_pods_pass_the_restricted_standard(pod: str) -> None:
    template = templates()[pod]
    assert violations(template["spec"], template["metadata"].get("annotations")) == []


def test_the_namespace_enforces_the_restricted_standard() -> None:
    (namespace,) = [one for one in manifests("base") if one["kind"] == "Namespace"]
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("hostNetwork", True),
        ("volumes.0", {"name": "keys", "hostPath": {"path": "/"}}),
        ("securityContext.sysctls", [{"name": "kernel.msgmax", "value": "1"}]),
        ("securityContext.runAsNonRoot", None),
        ("securityContext.runAsUser", 0),
        ("securityContext.seccompProfile", None),
        ("securityContext.seccompProfile.type", "Unconfined"),
        ("securityContext.appArmorProfile", {"type": "Unconfined"}),
        ("securityContext.seLinuxOptions", {"type": "spc_t"}),
        ("securityContext.windowsOptions", {"hostProcess": True}),
        ("containers.0.securityContext", {}),
        ("containers.0.securityContext.privileged", True),
        ("containers.0.securityContext.allowPrivilegeEscalation", None),
        ("containers.0.securityContext.capabilities.drop", ["NET_RAW"]),
        ("containers.0.securityContext.capabilities.add", ["SYS_ADMIN"]),
        ("containers.0.securityContext.procMount", "Unmasked"),
        ("containers.0.ports", [{"containerPort": 80, "hostPort": 80}]),
        ("containers.0.livenessProbe", {"httpGet": {"port": 80, "host": "10.0.0.1"}}),
        ("initContainers.0.securityContext", None),
    ],
)
def test_a_pod_that_breaks_one_rule_does_not_pass(path: str, value: Any) -> None:
    pod = json.loads(json.dumps(templates()["head"]["spec"]))
    *parents, last = path.split(".")
    place = pod
    for name in parents:
        place = place[int(name) if isinstance(place, list) else name]
    if value is None:
        del place[last]
    else:
        place[int(last) if isinstance(place, list) else last] = value
    assert violations(pod)


def test_only_the_autoscaler_may_use_the_api_of_kubernetes() -> None:
    accounts = {one["metadata"]["name"]: one for one in manifests("base") if one["kind"] == "ServiceAccount"}
    used = {name: template["spec"]["serviceAccountName"] for name, template in templates().items()}
    assert used == {name: f"summhay-{'worker' if name in ('spot', 'gpu') else name}" for name in PODS}
    assert set(used.values()) == set(accounts)
    assert all(account["automountServiceAccountToken"] is False for account in accounts.values())
    holders = set()
    for name, template in templates().items():
        pod = template["spec"]
        assert pod["automountServiceAccountToken"] is False
        tokens = {volume["name"] for volume in pod.get("volumes", []) if "serviceAccountToken" in json.dumps(volume)}
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            mounts = {mount["name"]: mount["mountPath"] for mount in container.get("volumeMounts", [])}
            assert set(mounts) <= {volume["name"] for volume in pod.get("volumes", [])}
            holders |= {(name, container["name"], mounts[token]) for token in tokens & set(mounts)}
    assert holders == {("head", "autoscaler", API_TOKEN_AT)}


def peers(rules: list[dict[str, Any]], key: str) -> dict[int | None, list[dict[str, Any]]]:
    """Port (None: every port) -> the peers that a policy's rules allow."""
    found: dict[int | None, list[dict[str, Any]]] = {}
    for rule in rules:
        for port in {one["port"] for one in rule.get("ports", [])} or {None}:
            found.setdefault(port, []).extend(rule[key])
    return found


def test_traffic_is_closed_but_for_what_the_run_needs() -> None:
    policies = named("NetworkPolicy")
    assert all(policy["policyTypes"] == ["Ingress", "Egress"] for policy in policies.values())
    everyone, nodes, head, submitter = (policies[f"summhay-{name}"] for name in ("default", "nodes", "head", "submitter"))
    assert everyone["podSelector"] == {} and "ingress" not in everyone and "ingress" not in submitter
    assert set(peers(everyone["egress"], "to")) == {53}

    labels = {name: template["metadata"]["labels"] for name, template in templates().items()}
    assert all(labels[name] == nodes["podSelector"]["matchLabels"] for name in NODES)
    assert labels["submitter"] == submitter["podSelector"]["matchLabels"] != labels["head"]
    assert head["podSelector"] == {"matchLabels": {**labels["head"], "ray.io/node-type": "head"}}

    coming, going = peers(nodes["ingress"], "from"), peers(nodes["egress"], "to")
    assert coming[None] == going[None] == [{"podSelector": nodes["podSelector"]}]
    assert set(coming) == {None, 8080} and set(going) == {None, 443}
    (public,) = going[443]
    assert {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"} <= set(public["ipBlock"]["except"])

    operator = {"app.kubernetes.io/name": "kuberay-operator"}
    assert [peer["podSelector"]["matchLabels"] for peer in peers(head["ingress"], "from")[8265]] == [
        labels["submitter"],
        operator,
    ]
    assert set(peers(head["egress"], "to")) == {443, 6443}
    assert peers(submitter["egress"], "to") == {8265: [{"podSelector": head["podSelector"]}]}
    cluster = rayjob()["rayClusterSpec"]
    assert cluster["authOptions"] == {"mode": "token"} and "serviceType" not in cluster["headGroupSpec"]


def test_nobody_empties_the_heads_node_and_workers_may_be_spot() -> None:
    assert rayjob()["rayClusterSpec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    kept = {"karpenter.sh/do-not-disrupt": "true", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    head, *workers = (templates()[name] for name in NODES)
    assert head["metadata"]["annotations"] == kept and "tolerations" not in head["spec"]
    clouds = {"karpenter.sh/capacity-type", "cloud.google.com/gke-spot", "kubernetes.azure.com/scalesetpriority"}
    for worker in workers:
        assert "annotations" not in worker["metadata"]
        assert set(worker["spec"]["nodeSelector"]) <= clouds <= {one["key"] for one in worker["spec"]["tolerations"]}


@pytest.mark.parametrize("name", NODES)
def test_nodes_get_time_to_drain_and_their_logs_are_shipped_to_the_end(name: str) -> None:
    pod = templates()[name]["spec"]
    container = pod["containers"][0]
    # Ray drains a node whose pod is deleted; the time is longer than its workers take, and shorter than the pod's.
    (drain,) = [one["value"] for one in container["env"] if one["name"] == "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"]
    assert pod["terminationGracePeriodSeconds"] - 5 > float(drain) > DRAIN_S + 2 * LEAVE_S + LOOK_EVERY_S
    assert container["resources"]["requests"] == container["resources"]["limits"]
    # A sidecar, which Kubernetes ends after the other containers, with the volume to which KubeRay also lets the autoscaler log.
    (shipper,) = pod["initContainers"]
    (mount,) = shipper["volumeMounts"]
    assert shipper["restartPolicy"] == "Always" and mount["readOnly"] and mount["name"] == "ray-logs"
    assert {"name": mount["name"], "mountPath": "/tmp/ray"} in container["volumeMounts"] and mount["mountPath"] == "/tmp/ray"


def test_keys_come_as_files_or_from_secrets() -> None:
    for name in NODES:
        container = templates()[name]["spec"]["containers"][0]
        mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
        for variable in container["env"]:
            if variable["name"].endswith("_FILE"):
                assert any(variable["value"].startswith(f"{mount}/") for mount in mounts)
            elif variable["name"].startswith("AWS_"):
                assert set(variable["valueFrom"]) == {"secretKeyRef"}
    texts = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "cluster").rglob("*") if file.suffix in (".yaml", ".py"))
    assert not re.search(r"sk-|AKIA", texts)


def test_the_job_is_a_spec_and_a_command_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("base", "second-run"):
        written = yaml.safe_load((KUBERNETES / folder / "spec.yaml").read_text(encoding="utf-8"))
        assert api.load(written).spec.budget_usd == written["budget_usd"]
    python, script, path, *options = shlex.split(rayjob()["entrypoint"])
    assert (python, script, path) == ("python", "/home/summhay/jobs/run.py", "/etc/summhay/run/spec.yaml")
    module = importlib.util.spec_from_file_location("loaded_run", ROOT / "jobs" / "run.py")
    assert module is not None and module.loader is not None
    run = importlib.util.module_from_spec(module)
    module.loader.exec_module(run)
    asked: list[list[str]] = []
    monkeypatch.setattr(run, "main", asked.append)
    assert run.job([path, *options]) == run.job([path, "--budget", "20"]) == 0
    assert asked == [["run", path, "--json", "--address", "auto"], ["run", path, "--budget", "20", "--address", "auto"]]


def test_the_dashboard_shows_metrics_that_runs_export() -> None:
    dashboard = json.loads((KUBERNETES / "monitoring" / "dashboard.json").read_text(encoding="utf-8"))
    shown = set(re.findall(r"ray_summhay_(\w+)", json.dumps(dashboard)))
    assert shown == set(FIGURES)
    (monitor,) = manifests("monitoring")
    chosen = monitor["spec"]["selector"]["matchLabels"].items()
    assert all(chosen <= templates()[name]["metadata"]["labels"].items() for name in NODES)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl builds the kustomizations")
def test_a_second_run_is_the_first_in_another_namespace() -> None:
    def built(folder: str) -> dict[tuple[str, str], dict[str, Any]]:
        done = subprocess.run(
            ["kubectl", "kustomize", str(KUBERNETES / folder)], capture_output=True, text=True, check=True, timeout=60
        )
        return {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(done.stdout)}

    first, second = built("base"), built("second-run")
    assert {one["metadata"].get("namespace") for one in second.values()} == {"summhay-second", None}
    assert ("Namespace", "summhay") in first and ("Namespace", "summhay-second") in second
    run, other = (one["ConfigMap", "summhay-run"]["data"] for one in (first, second))
    assert run["SUMMHAY_STORE"] != other["SUMMHAY_STORE"] and run["spec.yaml"] != other["spec.yaml"]
    for key in set(first) & set(second) - {("ConfigMap", "summhay-run"), ("RayJob", "summhay")}:
        assert first[key].get("spec") == second[key].get("spec")
    images = set(re.findall(r"'image': '([^']+)'", str(first["RayJob", "summhay"])))
    assert {image for image in images if "summhay-ray" in image} == {
        f"REGISTRY/summhay-ray:0.1.0-{kind}" for kind in ("cpu", "cuda")
    }
