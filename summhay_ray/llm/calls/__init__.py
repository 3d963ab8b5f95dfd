"""One call: its attempts, retries and outcome. A sub-room of llm; it begins at `gateway.py`."""
