"""A run as a Ray job: what it needs is packed, sent and followed. A sub-room of the engine."""
