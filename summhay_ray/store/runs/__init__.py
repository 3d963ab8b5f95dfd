"""Runs: their records, drivers and commits."""
