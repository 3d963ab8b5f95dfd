"""A transformers model as a local model, loaded when first called. Part of the generators room."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, ClassVar

from summhay_ray.encoders import PICKLED, UNTRUSTED, NoModel, best_device, find_model, find_reachable, folder_revision, placed
from summhay_ray.llm import LocalModel, Request
from summhay_ray.summarize import asked_in

GENERATORS = "transformers/"
"""Prefix of these models' names, before a hub name or a folder."""
DOCUMENT_END = "<doc-sep>"
MOST_TOKENS = 4096
"""Maximum input tokens of a model whose configuration gives no limit."""
_OWN = ("max_tokens", "temperature", "seed", "input", "source_tokens", "dtype", "extra_body", "top_p", "num_beams")
_INPUTS = ("prompt", "bart", "primera")


class Generator(LocalModel):
    """One transformers model. Besides `max_tokens` and `temperature` (0: no sampling), a spec's `extra` may set:

    - input: `prompt` (the prompt unchanged, the default), `bart` (query, documents, query, with the tokenizer's separator between
      them, like ODSum's input to BART), or `primera` (each of n documents cut to an n-th of the tokens, `<doc-sep>` after each,
      global attention on the first token).
    - source_tokens: maximum input tokens; by default the model's positions.
    - num_beams, top_p.
    - dtype: float32 (the default) or bfloat16.
    """

    reads_sampling: ClassVar[bool] = True

    def __init__(self, name: str, folder: Path = Path()) -> None:
        """`name` includes the prefix; a path in it starts at `folder`. Raises NoModel for a folder without a model."""
        place = placed(name.removeprefix(GENERATORS), folder)
        found = find_model(place)
        self.name = name
        self.revision = folder_revision(found.folder) if found.folder else "hub"
        self._place = str(found.folder or place)

    def answer(self, request: Request) -> str:
        """The generated text. Raises LookupError for unknown options, and NoModel where the model cannot be loaded."""
        options = dict(request.sampling)
        if unknown := sorted(set(options) - set(_OWN)):
            raise LookupError(f"{self.name} takes no {unknown[0]!r}; it takes {', '.join(_OWN[:-1])} and {_OWN[-1]}")
        shape = str(options.get("input", "prompt"))
        if shape not in _INPUTS:
            raise LookupError(f"{self.name}: input: expected one of {', '.join(_INPUTS)}, found {shape!r}")
        import torch

        model, tokenizer = _loaded(self._place, str(options.get("dtype", "float32")))

        encodes = bool(model.config.is_encoder_decoder)
        room = _positions(model, options.get("source_tokens"), 0 if encodes else int(options.get("max_tokens", 0)))
        ids = _input(request, shape, tokenizer, room, encodes)
        given = torch.tensor([ids], device=model.device)
        longest, beams = int(options.get("max_tokens", 256)), int(options.get("num_beams", 1))
        chosen: dict[str, Any] = {"max_new_tokens": longest, "num_beams": beams}
        temperature = float(options.get("temperature") or 0)
        if temperature > 0:
            chosen |= {"do_sample": True, "temperature": temperature, "top_p": float(options.get("top_p", 1.0))}
            # Equal requests get equal answers on equal hardware.
            torch.manual_seed(int.from_bytes(hashlib.sha256(request.key.encode("ascii")).digest()[:4], "big"))
        else:
            chosen["do_sample"] = False
        if shape == "primera" and "global_attention_mask" in inspect.signature(model.forward).parameters:
            chosen["global_attention_mask"] = torch.tensor([[1] + [0] * (len(ids) - 1)], device=model.device)
        with torch.inference_mode():
            out = model.generate(given, attention_mask=torch.ones_like(given), **chosen)[0]
        return str(tokenizer.decode(out if encodes else out[len(ids) :], skip_special_tokens=True)).strip()


def check_generator(name: str, folder: Path = Path()) -> None:
    """Raises NoModel where torch is missing, the folder has no model, or the hub's model is neither cached nor reachable."""
    best_device()
    find_reachable(placed(name.removeprefix(GENERATORS), folder))


@functools.lru_cache(maxsize=1)
def _loaded(place: str, dtype: str) -> tuple[Any, Any]:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    try:
        config = AutoConfig.from_pretrained(place, **UNTRUSTED)
        kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
        model = kind.from_pretrained(place, dtype=getattr(torch, dtype), **UNTRUSTED).to(best_device()).eval()
        return model, AutoTokenizer.from_pretrained(place, **UNTRUSTED)
    except UnpicklingError as error:
        raise NoModel(f"model {place!r}: {PICKLED}") from error
    # transformers raises OSError for a missing model, ValueError, KeyError or TypeError for a wrong kind of model, and
    # RuntimeError for weights that do not fit; an unknown dtype raises AttributeError.
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, AttributeError) as error:
        raise NoModel(
            f"model {place!r} cannot be loaded ({type(error).__name__}: {' '.join(str(error).split())[:200]})"
        ) from error


def _positions(model: Any, wanted: Any, for_answer: int) -> int:
    """Maximum input tokens: the model's positions minus `for_answer`, and at most `wanted`."""
    names = ("max_encoder_position_embeddings", "max_position_embeddings", "n_positions")
    own = next((int(found) for name in names if (found := getattr(model.config, name, None))), None)
    bounds = [*([] if wanted is None else [int(wanted)]), *([] if own is None else [own - for_answer])]
    return max(1, min(bounds)) if bounds else MOST_TOKENS


def _input(request: Request, shape: str, tokenizer: Any, room: int, encodes: bool) -> list[int]:
    """The input's token ids, at most `room`. `encodes`: whether the model has an encoder, and so no chat template."""
    if shape == "prompt" and not encodes and tokenizer.chat_template:
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
    """The first tokens of each document, in equal shares of `room`, each with a separator (PRIMERA, Xiao et al., 2022)."""
    separator = tokenizer.convert_tokens_to_ids(DOCUMENT_END)
    ends = [] if separator is None or separator == tokenizer.unk_token_id else [separator]
    first, last = _frame(tokenizer)
    each = max(0, (room - len(first) - len(last)) // max(1, len(texts)) - len(ends))
    return [*first, *(one for text in texts for one in (*_bare(tokenizer, text)[:each], *ends)), *last]


def _frame(tokenizer: Any) -> tuple[list[int], list[int]]:
    """(tokens before a text, tokens after it) that the tokenizer adds."""
    framed, bare = list(tokenizer("a")["input_ids"]), _bare(tokenizer, "a")
    at = next(at for at in range(len(framed) + 1) if framed[at : at + len(bare)] == bare)
    return framed[:at], framed[at + len(bare) :]


def _bare(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def _ids(tokenizer: Any, text: str, room: int) -> list[int]:
    found: Mapping[str, list[int]] = tokenizer(text, truncation=True, max_length=room)
    return list(found["input_ids"])
