"""The synth room: haystacks are made here, from a topic to verified documents. For the rooms above it."""

from summhay_ray.synth.kinds import (
    Difficulty,
    Outline,
    PlannedDocument,
    PlannedInsight,
    PlannedSubtopic,
    Shape,
    Synthesized,
    Topic,
    Unverified,
)

__all__ = [
    "Difficulty",
    "Outline",
    "PlannedDocument",
    "PlannedInsight",
    "PlannedSubtopic",
    "Shape",
    "Synthesized",
    "Topic",
    "Unverified",
]
