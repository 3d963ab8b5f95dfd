"""Runs a workload on Ray, on this machine or a cluster: ledger, workers and pools are actors.

Start reading at `executor.py`. `worker_actor.py` and `ledger_actor.py` describe what happens when a worker or the ledger dies.
"""
