"""Runs a workload on Ray, on this machine or a cluster. The ledger, the workers and the pools consist of Ray actors.

Start reading at `executor.py`. `worker_actor.py` and `ledger_actor.py` describe what happens when a worker or the ledger dies.
"""
