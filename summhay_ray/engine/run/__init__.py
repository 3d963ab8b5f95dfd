"""Executes a run in this process, with progress, heartbeat and stop."""
