"""How items are queued, prepared and answered, whatever executes them. A sub-room of the engine."""
