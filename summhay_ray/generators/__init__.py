"""The generators room: local language models, loaded by transformers (`transformers/NAME`, or a folder).

Sequence-to-sequence models (BART, PRIMERA) and chat models are called like paid models. Needs the extra `embed`; imports llm's
types, encoders, errors and summarize, which parses the prompts.
"""

from summhay_ray.generators.model import GENERATORS, Generator, check_generator

__all__ = ["GENERATORS", "Generator", "check_generator"]
