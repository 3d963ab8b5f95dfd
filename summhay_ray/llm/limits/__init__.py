"""Which call may be sent, and when, for all workers of a run: the ledger.

Money is in `budgets.py`, requests and tokens per minute and calls in flight in `rate_limits.py`.
"""
