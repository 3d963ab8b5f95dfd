"""One call: its attempts, retries and outcome. It begins at `gateway.py`."""
