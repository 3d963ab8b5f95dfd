"""Renders the prompt of a task, asks a model, and splits its answer into bullets.

Documents come first and the query after them, so that all queries over one context share a long prefix. The content of the
prompts follows sections 3.3 and 5.5 of the paper. Built-in prompts and users' prompt files use the same placeholders, which
include those of the release:

    [DOCUMENTS] = [ARTICLES] = [CONVERSATIONS]            the documents, each under a header line such as `Article 7:`
    [N_documents] = [N_articles] = [N_conversations]      number of documents shown
    [TOPIC] = [SCENARIO]   [PARTICIPANTS]                 of the haystack
    [SUBTOPIC]   [QUERY]   [N_insights]   [N_words]       of the query
    [NOTES]   [N_notes]                                   earlier summaries, for a reduce or refine step

`summhay_ray.text.fill` inserts all texts, so that none can end the documents or imitate a header (`text/material.py`). In a
user's template, the end mark follows the documents, and a line declares them to be material.
"""

import functools
import re
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources

from summhay_ray import text as texts
from summhay_ray.llm import Ask, RawAnswer, Request
from summhay_ray.metrics import read_citations
from summhay_ray.outcome import Answer, Malformed, Outcome
from summhay_ray.summarize.base import Form, Shown, Task
from summhay_ray.text import END_MARK

HEADER_WORDS = {"news": "Article", "conversation": "Conversation"}
"""Domain -> the first word of its header lines; `Document` for any other domain."""
NOTES_MARK = "=== Summaries so far ==="
"""The line of built-in prompts before the summaries of earlier steps."""
NOTES_END = "=== End of summaries so far ==="
"""The line of built-in prompts after the summaries of earlier steps."""

_FIRST = {"bullets": ("conversation", "generic", "news", "none"), "answer": ("answer", "answer_none")}
_FURTHER = {
    "bullets": {"reduce": "reduce", "refine": "refine"},
    "answer": {"reduce": "answer_reduce", "refine": "answer_refine"},
}

_DOCUMENTS = ("[DOCUMENTS]", "[ARTICLES]", "[CONVERSATIONS]")
_COUNTS = ("[N_documents]", "[N_articles]", "[N_conversations]")
_TOPICS = ("[TOPIC]", "[SCENARIO]")
_ASKS = ("[SUBTOPIC]", "[QUERY]")
_MORE = ("[PARTICIPANTS]", "[N_insights]", "[N_words]", "[NOTES]", "[N_notes]")
_BY_QUERY = (*_ASKS, "[N_insights]", "[N_words]", "[NOTES]", "[N_notes]")
"""The placeholders whose values differ between the queries of a haystack."""
_KNOWN = (*_DOCUMENTS, *_COUNTS, *_TOPICS, *_ASKS, *_MORE)
_LOOKS_LIKE_ONE = re.compile(r"(?<!\[)\[(?:N_\w+|[A-Z][A-Z_]{2,})\](?!\])")
_MARKUP = {"[INST]"}
"""Bracketed words of chat templates, which are not misspelt placeholders."""


def render(task: Task) -> str:
    """Return the prompt of the task's step.

    The template of a first step is the user's prompt file. By default, it is the built-in prompt for the form and domain, or for
    the form without documents.
    """
    return texts.fill(_template(task), _values(task))


def _values(task: Task) -> dict[str, texts.Material | texts.Block | int]:
    """Return the values of the placeholders."""
    haystack = task.haystack
    section = documents_section(task.shown, haystack.domain)
    lines = {
        **dict.fromkeys(_TOPICS, haystack.topic),
        "[PARTICIPANTS]": ", ".join(haystack.participants) or "not named",
        "[SUBTOPIC]": task.subtopic.text,
        "[QUERY]": task.subtopic.query,
    }
    return {
        **dict.fromkeys(_DOCUMENTS, section),
        # Built-in templates contain the end mark themselves.
        **{f"{name}\n{END_MARK}": section for name in _DOCUMENTS},
        **dict.fromkeys(_COUNTS, len(task.shown)),
        "[N_insights]": n_insights(task),
        "[N_words]": task.n_words,
        "[N_notes]": len(task.notes),
        "[NOTES]": texts.Material("\n\n".join(map(texts.neutral, task.notes))),
        **{name: texts.inline(text) for name, text in lines.items()},
    }


@functools.lru_cache(maxsize=64)
def prompt_identity(text: str = "", form: Form = "bullets", steps: bool = False) -> str:
    """Return the sha256 (hex) of a user's prompt file or, if `text` is empty, of the form's built-in prompts. It is part of a
    run's identity.

    `steps`: include the prompts of reduce and refine steps, which some strategies need.
    """
    parts = [text] if text else [_built_in(name) for name in _FIRST[form]]
    parts += [_built_in(name) for name in _FURTHER[form].values()] if steps else []
    return texts.text_hash("\0".join(parts))


def check_prompt(text: str) -> None:
    """Raise ValueError if a user's prompt file lacks a required placeholder or has an unknown one."""
    if not any(name in text for name in _DOCUMENTS):
        raise ValueError(f"the prompt has no placeholder for the documents: add {' or '.join(_DOCUMENTS)}")
    if not any(name in text for name in _ASKS):
        raise ValueError(f"the prompt has no placeholder for the query: add {' or '.join(_ASKS)}")
    unknown = sorted({name for name in _LOOKS_LIKE_ONE.findall(text) if name not in _KNOWN} - _MARKUP)
    if unknown:
        raise ValueError(f"{unknown[0]} is not a placeholder; known: {', '.join(_KNOWN)}")


# Cached, since every query and repeat over a context shows the same documents.
@functools.lru_cache(maxsize=32)
def documents_section(shown: tuple[Shown, ...], domain: str) -> texts.Block:
    """Return the documents, in the order shown, with the header lines of the domain."""
    return texts.headed(((one.number, one.text) for one in shown), HEADER_WORDS.get(domain, "Document"))


def n_insights(task: Task) -> int:
    """Return the number of insights to request. It is the number of the subtopic's insights in documents or, if that is unknown,
    the number of all its insights.

    For a subtopic that no document covers, it is the average over the haystack's other subtopics, since a prompt must not reveal
    that nothing covers it.
    """
    if task.subtopic.absent:
        present = sum(not subtopic.absent for subtopic in task.haystack.subtopics)
        return max(1, round(len(task.haystack.insights) / max(1, present)))
    insights, contained = task.haystack.insights_of(task.subtopic.subtopic_id), task.haystack.contained
    return sum(insight.insight_id in contained or task.haystack.nuggets for insight in insights) or len(insights)


def _template(task: Task) -> str:
    if task.step != "write":
        return _built_in(_FURTHER[task.form][task.step])
    if task.prompt:
        return task.prompt
    if task.form == "answer":
        return _built_in("answer" if task.shown else "answer_none")
    if not task.shown:
        return _built_in("none")
    return _built_in(task.haystack.domain if task.haystack.domain in HEADER_WORDS else "generic")


@functools.cache
def _built_in(name: str) -> str:
    return resources.files("summhay_ray.summarize").joinpath("prompts", f"{name}.txt").read_text("utf-8")


async def call(task: Task, ask: Ask) -> Outcome[RawAnswer]:
    """Return the model's answer to the prompt of the task's step, or the reason why there is none."""
    template, values = _template(task), _values(task)
    prompt = texts.fill(template, values)
    # The length of the prompt's beginning, which other tasks share.
    shared = len(prompt) if task.shares == "prompt" else 0
    if task.shares == "documents":
        shared = texts.length_before(template, values, _BY_QUERY, prompt)
    request = Request(
        model=task.model,
        messages=prompt,
        sampling=task.sampling,
        prompt_hash=texts.text_hash(template),
        sample=task.sample,
        lookup=task.lookup,
        shared=shared,
    )
    return final(await ask(request))


def final(outcome: Outcome[RawAnswer]) -> Outcome[RawAnswer]:
    """Return the outcome without the model's thinking in its text; Malformed if the thinking does not end."""
    if not isinstance(outcome, Answer):
        return outcome
    raw = outcome.value
    try:
        text = texts.remove_thinking(raw.text)
    except texts.UnusableAnswer as error:
        return Malformed(error.error, str(error), raw.key, raw.attempts, raw.usd_micros)
    return outcome if text == raw.text else replace(outcome, value=replace(raw, text=text))


_REFUSAL = re.compile(
    r"(i[\u2019']?m sorry|i am sorry|sorry|i apologi[sz]e|unfortunately|as an ai)?[,.:]?\s*(but )?"
    r"i[\u2019']?( am|m)? ?(can ?not|can[\u2019']t|not able to|unable to|won[\u2019']t|will not) "
    r"(help|assist|provide|complete|comply|fulfil|summari[sz]e|answer|do that|generate|create)",
    re.IGNORECASE,
)
_LONGEST_REFUSAL = 600
_SOURCES = re.compile(
    r"\W*(?:(?:list of|cited|used|referenced|source|liste des|verwendete) )?(?:references?|sources?|citations?|works cited|"
    r"bibliography|documents?|further reading|footnotes?|endnotes?|"
    r"références|bibliographie|quellen(?:angaben|verzeichnis)?|fontes|"
    r"literatur(?:verzeichnis)?|referencias|fuentes|bibliografía|fonti|riferimenti|referências|bronnen|referenties|литература|"
    r"ссылки|источники|джерела|参考文献|参考资料|參考文獻|參考資料|引用文献|出典|来源|來源|참고 ?문헌|출처|المراجع|المصادر)"
    r"(?: (?:used|cited|list))?\b[*_\s]*(?:\(\d+\))?\W*",
    re.IGNORECASE,
)
_NO_WORDS = re.compile(r"\W+|\b(?:and|documents?|articles?|docs?|nos?)\b|\d+", re.IGNORECASE)
_RULE = re.compile(r"[-*_=\s]{3,}")
_ENTRY = re.compile(r"(?:[-*•]\s*)?(?:\\?\[\^?\d+\\?\]:?|\d+[.):]|【\d+[^】]*】)\s*|[-*•]\s*")
_FILE_OR_URL = re.compile(r"[<(\"'`]*(?:https?://\S+|[^\s/\\]+\.[A-Za-z]{2,5})[>)\"'`]*")
_DEFINITION = re.compile(r"\\?\[\^\w+\\?\]:")


def bullets_of(text: str) -> tuple[str, ...]:
    r"""Return the non-blank lines of an answer, stripped, in order; split on "\n" only (paper, section 4.1).

    Headings, introductions and remarks count as bullets, as in the release, since judges number all of them from 1. A list of
    references is left out (see `remove_references`).
    """
    return remove_references([line.strip() for line in text.split("\n") if line.strip()])


def remove_references(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the lines without lists of references, which name sources but claim nothing.

    Four kinds of lines are left out: a heading such as `References:` with the entries below it; a line such as `Sources: [1],
    [2]`; an entry that is only a file name or an address (`1. a.txt`); and definitions of footnotes (`[^1]: ...`).
    """
    claims: list[str] = []
    listing = False
    for line in lines:
        heading = _SOURCES.match(line)
        entry = _ENTRY.match(line)
        rest = line[entry.end() :] if entry else line
        cites = listing and any(group.begin == 0 for group in read_citations(line).groups)
        if heading and not _claimed_text(line[heading.end() :]):
            listing = not line[heading.end() :]
            if claims and _RULE.fullmatch(claims[-1]):
                claims.pop()
        elif (
            _DEFINITION.match(line)
            or (entry and _FILE_OR_URL.fullmatch(rest))
            or (listing and (entry or cites or not _claimed_text(rest)))
        ):
            pass
        else:
            listing = False
            claims.append(line)
    return tuple(claims)


def _claimed_text(text: str) -> str:
    """Return the rest of a text without citations, file names, addresses and punctuation."""
    for group in reversed(read_citations(text).groups):
        text = text[: group.begin] + " " + text[group.end :]
    return _NO_WORDS.sub("", _FILE_OR_URL.sub(" ", text))


def refuses(text: str) -> bool:
    """Whether an answer is a refusal: it is short, has no citations, and begins with "I cannot help", "I'm unable to ..."."""
    answer = text.strip()
    return len(answer) <= _LONGEST_REFUSAL and not re.search(r"\[[\d, ]+\]", answer) and bool(_REFUSAL.match(answer))
