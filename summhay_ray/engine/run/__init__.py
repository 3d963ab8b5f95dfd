"""Executes a run in this process, with its progress, heartbeat and stop. A sub-room of the engine."""
