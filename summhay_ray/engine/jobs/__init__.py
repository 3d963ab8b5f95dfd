"""Packs a run, submits it as a Ray job, and follows the job's log."""
