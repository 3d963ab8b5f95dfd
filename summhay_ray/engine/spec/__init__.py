"""The spec and what it names: its fields, files, models and code, and which benchmark reads it. A sub-room of the engine."""
