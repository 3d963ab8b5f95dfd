"""The stored state of a run: its history, its money, and its remaining items."""
