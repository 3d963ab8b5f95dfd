"""Extracts the documents and the query from a prompt, for the offline models.

The documents end at the end mark; in built-in prompts, three labelled lines contain the query. Both are exact, because rendering
quotes imitations of them in documents. Bullets of earlier summaries count as text of the documents that they cite. Paragraphs of
earlier answers without citations count as further documents. In users' prompt files, such as the release's, the query is found as
follows, which may fail:

- The instructions are the text before the first header, and the text after the end mark. Without an end mark, the second part
  begins at the first paragraph with a requested number of insights, or with `the following topic` or `the articles above`. If
  there is none, it is the last paragraph. If the text before the documents requests a number, there is no second part.
- The number is 7 in `7 main insights`, `exactly 7 bullet points` and similar phrases; the default is 5.
- The query is the text in double quotes and after `topic:`, `question:` or `query:`, or else all of the instructions.
"""

import re
from dataclasses import dataclass

from summhay_ray.summarize.prompting import NOTES_END, NOTES_MARK
from summhay_ray.text import END_MARK, NOTE

_HEADER = re.compile(r"^(?:Article|Conversation|Document) (\d{1,9}):$", re.MULTILINE | re.ASCII)
_OURS = {name: re.compile(rf"^{name}: (.*)$", re.MULTILINE) for name in ("Subtopic", "Question", "Insights asked for")}
_PARAGRAPH = re.compile(r"\n\n+")
_NUMBER = re.compile(
    r"\b(\d{1,4})\s+(?:\w+\s+){0,3}?(?:insights?|bullets?|bullet[ -]points?)\b|\bexactly\s+(\d{1,4})\b", re.IGNORECASE
)
_CUE = re.compile(
    rf"{_NUMBER.pattern}|\bfollowing (?:topic|subtopic|question|query)\b"
    r"|\b(?:articles|conversations|documents) above\b|\babove (?:articles|conversations|documents)\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"[\"“]([^\"”\n]{3,300})[\"”]")
_LABELLED = re.compile(r"\b(?:topic|question|query)\b[^:\n\"]{0,40}:[ \t]*([^\n\"]{3,300})$", re.IGNORECASE | re.MULTILINE)
_NOTES = re.compile(rf"(?:\A|\n){re.escape(NOTES_MARK)}\n(.*?)\n{re.escape(NOTES_END)}\n", re.DOTALL)
_CITED = re.compile(r"\[(\d{1,9}(?: *, *\d{1,9})*)\]", re.ASCII)
_ANSWER = re.compile(r"^Length of the answer: at most (\d{1,9}) words$", re.MULTILINE | re.ASCII)
_WORDS_A_SENTENCE = 25
# The number of "main insights" if the prompt gives none.
_DEFAULT_NUMBER = 5


@dataclass(frozen=True, slots=True)
class Question:
    """The content of a prompt: the documents, the query, and the form of the answer."""

    documents: tuple[tuple[int, str], ...]
    """(number, text) in the order of the prompt."""
    query: str
    """The subtopic and the question, as search text."""
    n_insights: int
    subject: str = ""
    """The subtopic alone; empty if the prompt does not name it."""
    n_words: int | None = None
    """Maximum number of words of an answer as one text; None if bullets are requested."""


def read(prompt: str) -> Question:
    """Return the documents, the query and the number of requested insights in `prompt`."""
    notes = _NOTES.search(prompt)
    if notes:
        prompt = f"{prompt[: notes.start()]}\n\n{prompt[notes.end() :]}"
    body, mark, tail = prompt.partition(f"\n{END_MARK}\n")
    length = _ANSWER.search(tail if mark else prompt)
    if mark or notes or length:
        documents, question = (_documents(body), tail) if mark else ((), prompt)
        if mark and not length and not all(pattern.search(tail) for pattern in _OURS.values()):
            # A user's template may ask before the documents, too.
            first_head = _HEADER.search(body)
            before = body[: first_head.start() if first_head else len(body)].removesuffix(NOTE + "\n")
            question = f"{before}\n{tail}"
        if length:
            words = int(length.group(1))
            query = _OURS["Question"].search(question)
            first = max((number for number, _ in documents), default=0) + 1
            paragraphs = [part for part in _PARAGRAPH.split(notes[1] if notes else "") if part.strip()]
            return Question(
                (*documents, *((first + place, text) for place, text in enumerate(paragraphs))),
                query.group(1) if query else question,
                max(1, words // _WORDS_A_SENTENCE),
                n_words=words,
            )
        texts = {number: [text] for number, text in documents}
        for line in (notes[1] if notes else "").splitlines():
            statement = _CITED.sub("", line).strip().lstrip("-*• ")
            for cited in _CITED.findall(line):
                for number in cited.split(","):
                    texts.setdefault(int(number), []).append(statement)
        # Each bullet becomes a paragraph, so that none continues the line before it.
        return Question(tuple((number, "\n\n".join(parts)) for number, parts in texts.items()), *_request(question))
    headers = list(_HEADER.finditer(prompt))
    if not headers:
        return Question((), *_request(prompt))
    before = prompt[: headers[0].start()]
    start = _tail_start(prompt, headers[-1].end(), _NUMBER.search(before) is not None)
    return Question(_documents(prompt[headers[0].start() : start]), *_request(before + "\n" + prompt[start:]))


def _documents(text: str) -> tuple[tuple[int, str], ...]:
    headers = list(_HEADER.finditer(text))
    ends = [header.start() for header in headers[1:]] + [len(text)]
    return tuple((int(header.group(1)), text[header.end() + 1 : end]) for header, end in zip(headers, ends, strict=True))


def _tail_start(prompt: str, last_header: int, asked_before: bool) -> int:
    end_of_text = len(prompt.rstrip())
    starts = [found.end() for found in _PARAGRAPH.finditer(prompt, last_header) if found.end() < end_of_text]
    if not starts:
        return len(prompt)
    for at, end in zip(starts, [*starts[1:], len(prompt)], strict=True):
        if _CUE.search(prompt, at, end):
            return at
    return len(prompt) if asked_before else starts[-1]


def _request(text: str) -> tuple[str, int, str]:
    labelled = {name: pattern.search(text) for name, pattern in _OURS.items()}
    ours = [label.group(1) for label in labelled.values() if label]
    if len(ours) == len(_OURS) and re.fullmatch(r"\d{1,9}", ours[-1], re.ASCII):
        return f"{ours[1]} {ours[0]}", int(ours[-1]), ours[0]
    number = _NUMBER.search(text)
    query = " ".join(_QUOTED.findall(text) + _LABELLED.findall(text))
    return query or text, int(number.group(1) or number.group(2)) if number else _DEFAULT_NUMBER, ""
