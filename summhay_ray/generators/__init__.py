"""The generators room: language models that transformers loads into this process (`transformers/NAME`, or a folder).

Sequence-to-sequence models (BART, PRIMERA) and chat models take the very path of a paid model. Needs the extra `embed`; imports
llm's types, encoders, errors and summarize, whose prompts it reads.
"""

from summhay_ray.generators.model import GENERATORS, Generator, check_generator

__all__ = ["GENERATORS", "Generator", "check_generator"]
