"""The ledger, which decides for all workers of a run which calls may be sent, and when.

Money is in `budgets.py`, requests and tokens per minute and calls in flight in `rate_limits.py`.
"""
