"""The spec: its fields, files, models and code."""
