"""Runs and resumes a workload: state at a start, workers, queues, heartbeat, starts and stops. A sub-room of the engine."""
