"""The same on Ray: the ledger, the workers and the pools as actors, on this machine or a cluster. A sub-room of the engine.

What happens when one of them dies is said in `worker_actor.py` and `ledger_actor.py`.
"""
