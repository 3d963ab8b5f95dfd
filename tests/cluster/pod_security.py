"""Kubernetes' pod security standard `restricted`, with what it takes over from `baseline`, for the fields that a pod can set.

As https://kubernetes.io/docs/concepts/security/pod-security-standards/ lists the controls, for pods on Linux.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
SYSCTLS = {
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
}
SELINUX_TYPES = {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
SECCOMP = {"RuntimeDefault", "Localhost"}
HANDLERS = ("livenessProbe", "readinessProbe", "startupProbe")
CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


def violations(pod: dict[str, Any], annotations: dict[str, str] | None = None) -> list[str]:
    """The fields of a pod's spec that `restricted` does not allow, with their values; empty if the pod is allowed."""
    context = pod.get("securityContext", {})
    found = [f"{name}: true" for name in ("hostNetwork", "hostPID", "hostIPC") if pod.get(name)]
    found += [
        f"volume {name}: {volume.get('name')}" for volume in pod.get("volumes", []) for name in set(volume) - VOLUMES - {"name"}
    ]
    found += [f"sysctl {one['name']}" for one in context.get("sysctls", []) if one["name"] not in SYSCTLS]
    found += [
        f"{name}: {value}"
        for name, value in (annotations or {}).items()
        if name.startswith("container.apparmor.security.beta.kubernetes.io/")
        and value != "runtime/default"
        and not value.startswith("localhost/")
    ]
    found += _of_context("pod", context)
    for kind in CONTAINERS:
        for container in pod.get(kind, []):
            own = container.get("securityContext", {})
            where = f"{kind} {container['name']}"
            found += [*_of_context(where, own), *_of_container(where, container, own, context)]
    return found


def _of_context(where: str, context: dict[str, Any]) -> Iterator[str]:
    """Fields that a pod and a container may both set, and must not set to a wrong value."""
    selinux = context.get("seLinuxOptions", {})
    wrong = {
        "runAsNonRoot": context.get("runAsNonRoot") is False,
        "runAsUser": context.get("runAsUser") == 0,
        "seccompProfile": context.get("seccompProfile", {}).get("type", "RuntimeDefault") not in SECCOMP,
        "appArmorProfile": context.get("appArmorProfile", {}).get("type", "RuntimeDefault") not in SECCOMP,
        "seLinuxOptions": selinux.get("type", "") not in SELINUX_TYPES or bool(selinux.get("user") or selinux.get("role")),
        "hostProcess": bool(context.get("windowsOptions", {}).get("hostProcess")),
    }
    yield from (f"{where}: {name} {context.get(name, True)}" for name, is_wrong in wrong.items() if is_wrong)


def _of_container(where: str, container: dict[str, Any], own: dict[str, Any], pod: dict[str, Any]) -> Iterator[str]:
    """Fields of a container alone, and those that it must set if its pod does not."""
    capabilities = own.get("capabilities", {})
    hooks = container.get("lifecycle", {}).values()
    probes = [container.get(name, {}) for name in HANDLERS]
    hosts = [handler.get(kind, {}).get("host") for handler in (*hooks, *probes) for kind in ("httpGet", "tcpSocket")]
    wrong = {
        "privileged": bool(own.get("privileged")),
        "allowPrivilegeEscalation is not false": own.get("allowPrivilegeEscalation") is not False,
        "capabilities.drop lacks ALL": "ALL" not in capabilities.get("drop", []),
        "capabilities.add": not set(capabilities.get("add", [])) <= {"NET_BIND_SERVICE"},
        "procMount": own.get("procMount", "Default") != "Default",
        "hostPort": any(port.get("hostPort") for port in container.get("ports", [])),
        "host of a probe or hook": any(hosts),
        "runAsNonRoot is not set": "runAsNonRoot" not in own and pod.get("runAsNonRoot") is not True,
        "seccompProfile is not set": "seccompProfile" not in own and "seccompProfile" not in pod,
    }
    yield from (f"{where}: {name}" for name, is_wrong in wrong.items() if is_wrong)
