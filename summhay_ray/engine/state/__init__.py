"""What the store holds of a run: its history, its money, its items that are left. A sub-room of the engine."""
