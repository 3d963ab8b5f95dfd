"""Executes a run: queues, workers, batches, progress, heartbeats and stopping. Uses no Ray."""
