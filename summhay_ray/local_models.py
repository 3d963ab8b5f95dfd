"""Models that need no API key: `offline/...`, `replay/...`, and `transformers/...`.

They read the same prompts as any other model. The transformers library loads a sequence-to-sequence model (BART, PRIMERA) or a
chat model, named `transformers/NAME` or `transformers/FOLDER`, at its first call. This needs the extra `embed`.
"""

import functools
import hashlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from summhay_ray import encoders
from summhay_ray.judge import OfflineJudge, OfflineRater
from summhay_ray.llm import GeneratingModel, Generation, LocalModel, Request
from summhay_ray.plugins import load_installed, unknown
from summhay_ray.summarize import asked_in, local_models

GENERATORS = "transformers/"
"""Prefix of the names of models that transformers loads. A hub name or a folder follows."""
DOCUMENT_END = "<doc-sep>"
MOST_TOKENS = 4096
"""Maximum input tokens of a model whose configuration gives no limit."""
CPU_ROWS, CPU_TOKENS = 8, 4096
"""Maximum number of prompts in a batch on CPUs, and of tokens in its prompts and answers. Larger batches gain little, and more is
lost if the run stops."""
CACHE_BYTES = 2 * 2**30
"""Maximum GPU memory for the key-value cache of a batch. A single request may need more."""
FAMILIES = ("replay/", GENERATORS)
"""Prefixes of local models that may have any name: a benchmark's replayed answers, and models that transformers loads."""
WRITER = "offline/writer"
_WRITER = "summhay_ray.synth:OfflineWriter"
"""The offline writer's class. It is imported only when it is used, since it loads the templates of synthesis."""
_OWN = ("max_tokens", "temperature", "seed", "input", "source_tokens", "dtype", "extra_body", "top_p", "num_beams")
_INPUTS = ("prompt", "bart", "primera")


class LocalModels(Mapping[str, LocalModel]):
    """The local models by name, or by `provider/` for a family. Each is created on first use."""

    def __init__(self, more: Iterable[LocalModel] = (), folder: Path = Path()) -> None:
        """`more`: further models. `folder`: the spec's folder, to which paths of models are relative."""
        self._made = {model.name: model for model in more}
        self._folder = folder
        self._kinds: dict[str, Callable[[], LocalModel]] = {WRITER: lambda: load_installed(_WRITER)(), **local_models()}
        self._kinds |= {model.name: model for model in (OfflineJudge, OfflineRater)}

    def __getitem__(self, name: str) -> LocalModel:
        if name not in self._made:
            self._made[name] = Generator(name, self._folder) if name.startswith(GENERATORS) else self._kinds[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._kinds, *self._made)))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in self._made or name in self._kinds or (isinstance(name, str) and name.startswith(GENERATORS))


def local_names() -> list[str]:
    """Return the names that a spec may use, sorted. In a family, any name may follow the slash."""
    return sorted([*LocalModels(), *FAMILIES])


def check_models(names: Iterable[str], own: Iterable[type[LocalModel]], folder: Path = Path()) -> None:
    """Check each name that is not one of a benchmark's `own` local models (see `check_model`)."""
    known = {model.name for model in own}
    for name in names:
        if name not in known:
            check_model(name, folder)


def check_model(name: str, folder: Path = Path()) -> None:
    """Check that a local model can be used. `folder`: the folder to which paths are relative. Raises UnknownName for an
    `offline/...` that does not exist, and NoModel for a `transformers/...` that cannot be loaded here."""
    if name.startswith("offline/") and name not in LocalModels():
        raise unknown("offline model", name, local_names())
    if name.startswith(GENERATORS):
        encoders.best_device()
        encoders.find_reachable(encoders.resolve_name(name.removeprefix(GENERATORS), folder))


class Generator(GeneratingModel):
    """A model that transformers loads. In addition to `max_tokens` and `temperature` (0: no sampling), a spec's `extra` may set:

    - input: `prompt` (the unchanged prompt, the default); `bart` (query, documents, query, with the tokenizer's separator between
      them, like ODSum's input to BART); or `primera` (n documents, each cut to 1/n of the tokens, `<doc-sep>` after each, and
      global attention on the first token).
    - source_tokens: maximum input tokens; by default the model's number of positions.
    - num_beams, top_p.
    - dtype: float32 (the default) or bfloat16.
    """

    def __init__(self, name: str, folder: Path = Path()) -> None:
        """`name` includes the prefix. A path in it is relative to `folder`. Raises NoModel for a folder without a model."""
        place = encoders.resolve_name(name.removeprefix(GENERATORS), folder)
        found = encoders.find_model(place)
        self.name = name
        self.revision = encoders.folder_revision(found.folder) if found.folder else "hub"
        self._place = str(found.folder or place)

    def answer(self, request: Request) -> str:
        """Return the generated text. Raises LookupError for unknown options, and NoModel if the model cannot be loaded."""
        texts: dict[int, str] = {}
        self.generate(Generation([request], texts.__setitem__, lambda *_: True))
        return texts[0]

    def batches(self, requests: Sequence[Request], most: int) -> Sequence[Sequence[int]]:
        """Divide requests into batches with prompts of similar length, longest first. Returns their indices. A request with
        sampling or beams is a separate batch, since its draws must not depend on other requests. Raises the same errors as
        `answer`."""
        options = _Options(self.name, requests[0])
        model, tokenizer = _load(self._place, options.dtype)
        if options.temperature > 0 or options.beams > 1:
            return [[place] for place in range(len(requests))]
        lengths = [len(options.ids(request, model, tokenizer)) for request in requests]
        on_cpu = model.device.type == "cpu"
        rows, tokens = (min(most, CPU_ROWS), CPU_TOKENS) if on_cpu else (most, CACHE_BYTES // _cache_bytes(model))
        if _may_pad(model):
            return list(encoders.batches([length + options.max_tokens for length in lengths], tokens, rows))
        alike = {length: [place for place, other in enumerate(lengths) if other == length] for length in sorted(set(lengths))}
        return [
            [places[at] for at in batch]
            for length, places in alike.items()
            for batch in encoders.batches([length + options.max_tokens] * len(places), tokens, rows)
        ]

    def generate(self, generation: Generation) -> None:
        """Generate the answers to a batch. Prompts are padded on the left or, for a model with an encoder, on the right. Raises
        the same errors as `answer`."""
        options = _Options(self.name, generation.requests[0])
        import torch
        from transformers import StoppingCriteriaList

        model, tokenizer = _load(self._place, options.dtype)
        encodes = bool(model.config.is_encoder_decoder)
        rows = [options.ids(request, model, tokenizer) for request in generation.requests]
        width = max(map(len, rows))
        pad = next((one for one in (tokenizer.pad_token_id, tokenizer.eos_token_id) if one is not None), 0)

        def padded(values: Sequence[int], filler: int) -> list[int]:
            fill = [filler] * (width - len(values))
            return [*values, *fill] if encodes else [*fill, *values]

        given = torch.tensor([padded(row, pad) for row in rows])
        mask = torch.tensor([padded([1] * len(row), 0) for row in rows])
        chosen: dict[str, Any] = {"max_new_tokens": options.max_tokens, "num_beams": options.beams, "pad_token_id": pad}
        if options.temperature > 0:
            chosen |= {"do_sample": True, "temperature": options.temperature, "top_p": options.top_p}
            # On the same hardware, equal requests must get equal answers.
            [request] = generation.requests
            torch.manual_seed(int.from_bytes(hashlib.sha256(request.key.encode("ascii")).digest()[:4], "big"))
        else:
            chosen["do_sample"] = False
        if options.input == "primera" and "global_attention_mask" in inspect.signature(model.forward).parameters:
            chosen["global_attention_mask"] = torch.tensor([[1] + [0] * (width - 1)] * len(rows), device=model.device)
        ends = model.generation_config.eos_token_id
        watch = _Watch(generation, options, tokenizer, [ends] if isinstance(ends, int) else list(ends or []))
        with torch.inference_mode():
            out = model.generate(
                given.to(model.device),
                attention_mask=mask.to(model.device),
                stopping_criteria=StoppingCriteriaList([watch]),
                **chosen,
            )
        if not watch.stopped:
            watch.finish(out[:, 0 if encodes else width :].tolist())


class _Options:
    """The options of a request. Unknown options raise LookupError."""

    def __init__(self, name: str, request: Request) -> None:
        options = dict(request.sampling)
        if unknown := sorted(set(options) - set(_OWN)):
            raise LookupError(f"{name} takes no {unknown[0]!r}; it takes {', '.join(_OWN[:-1])} and {_OWN[-1]}")
        self.input = str(options.get("input", "prompt"))
        if self.input not in _INPUTS:
            raise LookupError(f"{name}: input: expected one of {', '.join(_INPUTS)}, found {self.input!r}")
        self.dtype = str(options.get("dtype", "float32"))
        self.max_tokens, self.beams = int(options.get("max_tokens", 256)), int(options.get("num_beams", 1))
        self.temperature, self.top_p = float(options.get("temperature") or 0), float(options.get("top_p", 1.0))
        self._for_answer, self._source_tokens = int(options.get("max_tokens", 0)), options.get("source_tokens")

    def ids(self, request: Request, model: Any, tokenizer: Any) -> list[int]:
        """Return the token ids of a request's input."""
        encodes = bool(model.config.is_encoder_decoder)
        room = _positions(model, self._source_tokens, 0 if encodes else self._for_answer)
        return _input(request, self.input, tokenizer, room, encodes)


class _Watch:
    """A stopping criterion of transformers. It reports each answer when it is complete, and stops the batch if requested."""

    def __init__(self, generation: Generation, options: _Options, tokenizer: Any, ends: Sequence[int]) -> None:
        self.stopped = False
        self._generation, self._options, self._tokenizer, self._ends = generation, options, tokenizer, frozenset(ends)
        self._open = dict.fromkeys(range(len(generation.requests)))
        self._n_tokens = 0

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        import torch

        self._n_tokens += 1
        # With beams, a finished beam is not yet the final answer.
        if self._options.beams == 1:
            last = input_ids[:, -1].tolist()
            for place in [place for place in self._open if last[place] in self._ends]:
                self._give(place, input_ids[place, -self._n_tokens :].tolist())
        goes_on = self._generation.goes_on(self._n_tokens, self._options.max_tokens)
        self.stopped = not goes_on and self._n_tokens < self._options.max_tokens
        return torch.full((input_ids.shape[0],), self.stopped, device=input_ids.device)

    def finish(self, rows: Sequence[Sequence[int]]) -> None:
        """Report the answers that have reached their maximum length."""
        for place in [*self._open]:
            self._give(place, rows[place])

    def _give(self, place: int, ids: Sequence[int]) -> None:
        del self._open[place]
        self._generation.answered(place, str(self._tokenizer.decode(ids, skip_special_tokens=True)).strip())


def _may_pad(model: Any) -> bool:
    """Return whether padding leaves answers unchanged: positions are counted without padding, and no repetition penalty includes
    it."""
    said = model.generation_config
    if model.config.is_encoder_decoder:
        return True
    penalized = (said.repetition_penalty or 1.0) != 1.0 or bool(said.no_repeat_ngram_size)
    return "position_ids" in inspect.signature(model.forward).parameters and not penalized


def _cache_bytes(model: Any) -> int:
    """Return the bytes per token in a model's cache, for a key and a value in each layer."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_attention_heads", 0) or 1
    share = (getattr(config, "num_key_value_heads", None) or heads) / heads
    return max(1, int(2 * config.num_hidden_layers * config.hidden_size * share * model.dtype.itemsize))


@functools.lru_cache(maxsize=1)
def _load(place: str, dtype: str) -> tuple[Any, Any]:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    encoders.quiet()
    try:
        config = AutoConfig.from_pretrained(place, **encoders.UNTRUSTED)
        kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
        model = kind.from_pretrained(place, dtype=getattr(torch, dtype), **encoders.UNTRUSTED).to(encoders.best_device()).eval()
        return model, AutoTokenizer.from_pretrained(place, **encoders.UNTRUSTED)
    except UnpicklingError as error:
        raise encoders.NoModel(f"model {place!r}: {encoders.PICKLED}") from error
    # transformers raises OSError for a missing model, ValueError, KeyError or TypeError for a wrong kind of model, and
    # RuntimeError for weights that do not fit. An unknown dtype raises AttributeError.
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, AttributeError) as error:
        raise encoders.NoModel(
            f"model {place!r} cannot be loaded ({type(error).__name__}: {' '.join(str(error).split())[:200]})"
        ) from error


def _positions(model: Any, wanted: Any, for_answer: int) -> int:
    """Return the maximum input tokens: the model's number of positions minus `for_answer`, at most `wanted`."""
    names = ("max_encoder_position_embeddings", "max_position_embeddings", "n_positions")
    own = next((int(found) for name in names if (found := getattr(model.config, name, None))), None)
    bounds = [*([] if wanted is None else [int(wanted)]), *([] if own is None else [own - for_answer])]
    return max(1, min(bounds)) if bounds else MOST_TOKENS


def _input(request: Request, shape: str, tokenizer: Any, room: int, encodes: bool) -> list[int]:
    """Return the input's token ids, at most `room`. `encodes`: whether the model has an encoder, and so no chat template."""
    if shape == "prompt" and not encodes and tokenizer.chat_template:
        messages = [{"role": one.role, "content": one.content} for one in request.messages]
        ids: list[int] = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        return ids[:room]
    if shape == "prompt":
        return list(tokenizer(request.prompt, truncation=True, max_length=room)["input_ids"])
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
    """Return the first tokens of each document, in equal shares of `room`, each followed by a separator (PRIMERA, Xiao et al.,
    2022)."""
    separator = tokenizer.convert_tokens_to_ids(DOCUMENT_END)
    ends = [] if separator is None or separator == tokenizer.unk_token_id else [separator]
    first, last = _frame(tokenizer)
    each = max(0, (room - len(first) - len(last)) // max(1, len(texts)) - len(ends))
    return [*first, *(one for text in texts for one in (*_bare(tokenizer, text)[:each], *ends)), *last]


def _frame(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the tokens that the tokenizer adds: (before a text, after a text)."""
    framed, bare = list(tokenizer("a")["input_ids"]), _bare(tokenizer, "a")
    at = next(at for at in range(len(framed) + 1) if framed[at : at + len(bare)] == bare)
    return framed[:at], framed[at + len(bare) :]


def _bare(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])
