"""The summarize room."""
