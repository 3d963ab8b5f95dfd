"""A model of transformers as a local model: loaded once a process, when it is first asked. Part of the generators room."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from summhay_ray.encoders import NoModel, best_device, find_at_hand, find_model, folder_revision
from summhay_ray.llm import LocalModel, Request
from summhay_ray.summarize import asked_in

GENERATORS = "transformers/"
"""How the names of these models begin; behind it stands a hub's name, or a folder."""
DOCUMENT_END = "<doc-sep>"
MOST_TOKENS = 4096
"""Of the input of a model that says nothing of its positions."""
_OWN = ("max_tokens", "temperature", "seed", "input", "source_tokens", "dtype", "extra_body", "top_p", "num_beams")
_INPUTS = ("prompt", "bart", "primera")


class Generator(LocalModel):
    """One model. Beside `max_tokens` and `temperature` (0: the likeliest words) a spec's `extra` may say:

    input: `prompt` (the prompt as it is), `bart` (query, documents, query, with the tokenizer's separator between, as ODSum feeds
    BART), or `primera` (each of n documents cut to an n-th of the tokens, `<doc-sep>` after each, global attention on the first
    token). source_tokens: where the input is cut; by default the model's own positions. num_beams, top_p. dtype: float32 or
    bfloat16.
    """

    reads_sampling: ClassVar[bool] = True

    def __init__(self, name: str) -> None:
        """`name`: with the prefix. Raises NoModel for a folder that holds no model."""
        found = find_model(name.removeprefix(GENERATORS))
        self.name = name
        self.revision = folder_revision(found.folder) if found.folder else "hub"
        self._place = str(found.folder or name.removeprefix(GENERATORS))

    def answer(self, request: Request) -> str:
        """What the model writes. Raises LookupError for options that it does not know, and where it cannot be loaded."""
        options = dict(request.sampling)
        if unknown := sorted(set(options) - set(_OWN)):
            raise LookupError(f"{self.name} takes no {unknown[0]!r}; it takes {', '.join(_OWN[:-1])} and {_OWN[-1]}")
        shape = str(options.get("input", "prompt"))
        if shape not in _INPUTS:
            raise LookupError(f"{self.name}: input: expected one of {', '.join(_INPUTS)}, found {shape!r}")
        import torch

        model, tokenizer = _loaded(self._place, str(options.get("dtype", "float32")))

        whole = bool(model.config.is_encoder_decoder)
        room = _positions(model, options.get("source_tokens"), 0 if whole else int(options.get("max_tokens", 0)))
        ids = _input(request, shape, model, tokenizer, room, whole)
        given = torch.tensor([ids], device=model.device)
        longest, beams = int(options.get("max_tokens", 256)), int(options.get("num_beams", 1))
        chosen: dict[str, Any] = {"max_new_tokens": longest, "num_beams": beams}
        temperature = float(options.get("temperature") or 0)
        if temperature > 0:
            chosen |= {"do_sample": True, "temperature": temperature, "top_p": float(options.get("top_p", 1.0))}
            # One answer to one request, on every machine of a kind.
            torch.manual_seed(int.from_bytes(hashlib.sha256(request.key.encode("ascii")).digest()[:4], "big"))
        else:
            chosen["do_sample"] = False
        if shape == "primera" and "global_attention_mask" in inspect.signature(model.forward).parameters:
            chosen["global_attention_mask"] = torch.tensor([[1] + [0] * (len(ids) - 1)], device=model.device)
        with torch.inference_mode():
            out = model.generate(given, attention_mask=torch.ones_like(given), **chosen)[0]
        return str(tokenizer.decode(out if whole else out[len(ids) :], skip_special_tokens=True)).strip()


def check_generator(name: str) -> None:
    """Raises NoModel, in one line, where transformers is not installed, the folder holds no model, or a hub's is not at hand."""
    best_device()
    find_at_hand(name.removeprefix(GENERATORS))


@functools.lru_cache(maxsize=1)
def _loaded(place: str, dtype: str) -> tuple[Any, Any]:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    try:
        config = AutoConfig.from_pretrained(place)
        kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
        model = kind.from_pretrained(place, dtype=getattr(torch, dtype)).to(best_device()).eval()
        return model, AutoTokenizer.from_pretrained(place)
    # transformers raises OSError for a model that is nowhere, ValueError, KeyError or TypeError for one of a wrong kind, and
    # RuntimeError for weights that do not fit; AttributeError for a dtype that is none.
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, AttributeError) as error:
        raise NoModel(
            f"model {place!r} cannot be loaded ({type(error).__name__}: {' '.join(str(error).split())[:200]})"
        ) from error


def _positions(model: Any, wanted: Any, for_answer: int) -> int:
    """Tokens that the input may have."""
    names = ("max_encoder_position_embeddings", "max_position_embeddings", "n_positions")
    own = next((int(found) for name in names if (found := getattr(model.config, name, None))), None)
    bounds = [*([] if wanted is None else [int(wanted)]), *([] if own is None else [own - for_answer])]
    return max(1, min(bounds)) if bounds else MOST_TOKENS


def _input(request: Request, shape: str, model: Any, tokenizer: Any, room: int, whole: bool) -> list[int]:
    """The tokens of what the model reads, at most so many."""
    if shape == "prompt" and not whole and tokenizer.chat_template:
        messages = [{"role": one.role, "content": one.content} for one in request.messages]
        ids: list[int] = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        return ids[:room]
    if shape == "prompt":
        return _ids(tokenizer, request.prompt, room)
    question = asked_in(request.prompt)
    texts = [text for _, text in question.documents]
    if shape == "primera":
        return _per_document(tokenizer, texts, room)
    ends = _bare(tokenizer, question.query)
    separator = [tokenizer.sep_token_id] if tokenizer.sep_token_id is not None else []
    first, last = _frame(tokenizer)
    left = max(0, room - len(first) - len(last) - 2 * len(ends) - 2 * len(separator))
    middle = _bare(tokenizer, " ".join(texts))[:left]
    return [*first, *ends, *separator, *middle, *separator, *ends, *last][:room]


def _per_document(tokenizer: Any, texts: Sequence[str], room: int) -> list[int]:
    """Of n documents the first `room // n` tokens each, and the separator after each (PRIMERA, Xiao et al., 2022)."""
    separator = tokenizer.convert_tokens_to_ids(DOCUMENT_END)
    ends = [] if separator is None or separator == tokenizer.unk_token_id else [separator]
    first, last = _frame(tokenizer)
    each = max(0, (room - len(first) - len(last)) // max(1, len(texts)) - len(ends))
    return [*first, *(one for text in texts for one in (*_bare(tokenizer, text)[:each], *ends)), *last]


def _frame(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The tokens that the tokenizer puts before and behind a text."""
    framed, bare = list(tokenizer("a")["input_ids"]), _bare(tokenizer, "a")
    at = next(at for at in range(len(framed) + 1) if framed[at : at + len(bare)] == bare)
    return framed[:at], framed[at + len(bare) :]


def _bare(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def _ids(tokenizer: Any, text: str, room: int) -> list[int]:
    found: Mapping[str, list[int]] = tokenizer(text, truncation=True, max_length=room)
    return list(found["input_ids"])
