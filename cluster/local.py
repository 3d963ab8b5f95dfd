"""A Ray cluster of several nodes on this machine, to rehearse a real one: `python cluster/local.py [NODES]`; Ctrl-C ends it.

All nodes see this machine's disk, so a local store is shared. Each node offers 2 CPUs, whatever the machine has.
"""

from __future__ import annotations

import os
import sys
import threading

CPUS_A_NODE = 2


def main(nodes: int) -> None:
    """Start the cluster, say how to use it, and wait."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray would guard the cluster with a token that each command must be told of; it listens on this machine alone.
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": CPUS_A_NODE, "include_dashboard": False})
    try:
        for _ in range(nodes - 1):
            cluster.add_node(num_cpus=CPUS_A_NODE)
        cluster.wait_for_nodes()
        sys.stdout.write(f"{nodes} nodes; summhay run SPEC --address {cluster.address}\n")
        sys.stdout.flush()
        threading.Event().wait()
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
