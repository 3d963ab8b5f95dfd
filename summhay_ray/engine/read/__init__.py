"""Reads a stored run, even while it is running: its status, scores, explanations and samples. Makes no calls."""
