"""Models that rate a text on a scale of whole numbers, by sampling or by log probabilities. Other rooms import from `judge`."""
