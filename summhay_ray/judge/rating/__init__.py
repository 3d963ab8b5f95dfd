"""Rates a text on a scale of whole numbers, by a model's samples or log probabilities. Other packages import from `judge`."""
