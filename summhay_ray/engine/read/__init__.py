"""Reads a stored run, also while it goes on: status, scores, explanations, samples. A sub-room of the engine; no calls."""
