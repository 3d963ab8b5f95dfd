"""Runs: their records, drivers and commits. A sub-room of the store."""
