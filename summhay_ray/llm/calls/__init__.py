"""One call: its request and key, its attempts, its reply, its answer. A sub-room of llm; it begins at `gateway.py`."""
