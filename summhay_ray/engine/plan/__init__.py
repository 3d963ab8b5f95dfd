"""What a run will ask and cost, before any call and while it goes on. A sub-room of the engine."""
