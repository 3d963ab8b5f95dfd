"""Part of the synth room: the local model `offline/writer`, which makes haystacks without a key. For the room alone."""

from summhay_ray.synth.writer.model import OfflineWriter
from summhay_ray.synth.writer.outline import invented_insight
from summhay_ray.synth.writer.prompts import read_input, seeded, task_of, with_input

__all__ = ["OfflineWriter", "invented_insight", "read_input", "seeded", "task_of", "with_input"]
