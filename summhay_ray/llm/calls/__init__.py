"""One call: its attempts, retries and outcome. Start reading at `gateway.py`."""
