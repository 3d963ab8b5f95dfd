"""Runs a workload on Ray, on this machine or a cluster: ledger, workers and pools are actors. A sub-room of the engine.

It begins at `executor.py`. `worker_actor.py` and `ledger_actor.py` say what happens when a worker or the ledger dies.
"""
