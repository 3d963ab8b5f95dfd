"""Parses models' answers: removes thinking, then reads JSON, a label or a number.

Thinking is removed at the beginning or the end of an answer; a tag that the answer quotes is text. JSON may be fenced or within
prose, and may have the usual errors, such as a missing comma. But nothing is guessed: an object that is cut off is not completed.
"""

import functools
import json
import math
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any


class UnusableAnswer(ValueError):
    """The answer lacks the requested content. `error` is its class; the message is one line."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.error = error


_NAME = (
    r"(?:ant)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|思考|推理|思维链)(?:[-_ ]?(?:process|block|steps?|trace|content|过程))?"
    r"|reflection|scratchpad|analysis|draft|cot|chain[-_]of[-_]thought|planning|rationale|monologue|deliberation"
    r"|(?:inner|internal)[-_](?:monologue|thoughts?|reasoning)"
)
_MARK = re.compile(
    rf"^[ \t]*(?:```|~~~)(?P<info>[^\n]*)|(?P<comment><!--|(?P<ends1>-->))"
    # The harmony format (gpt-oss).
    r"|(?P<channel>(?:<\|start\|>assistant\s*)?<\|channel\|>\s*(?:analysis|commentary)\b[^<]*(?:<\|message\|>)?"
    r"|(?P<ends2><\|end\|>\s*(?:<\|start\|>assistant\s*)?(?:<\|channel\|>(?!\s*(?:analysis|commentary))[^<]*|(?=<\|message\|>)|(?!<))"
    r"(?:<\|constrain\|>[^<]*)?(?:<\|message\|>)?|(?:<\|start\|>assistant\s*)?<\|channel\|>\s*final\b[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>))"
    r"|(?P<details><details\b[^<>]*>\s*<summary>[^<\n]*\b(?:think|thought|reason)[^<\n]*</summary>|(?P<ends3></details>))"
    rf"|(?:<|＜|&lt;|◁) ?(?P<ends4>/)? ?(?:\w+[:_])?(?P<tag>{_NAME})(?:\s[^<>\n]*)?(?:>|＞|&gt;|▷)"
    rf"|(?P<open>[\[{{(【])(?P<ends5>/)?(?P<name>{_NAME})[\]}})】](?!\()"
    rf"|<\|(?:(?P<ends6>/|end_(?:of_)?)|(?:begin|start)_(?:of_)?)?(?P<token>{_NAME})\|>"
    rf"|<\|(?=\w+_(?P<ends7>end)\|)?(?P<token2>{_NAME})_(?:start|begin|end)\|>",
    re.IGNORECASE | re.MULTILINE,
)
"""Matches a code fence, or a mark that begins or ends thinking."""
_ENDS = tuple(f"ends{number}" for number in range(1, 8))
_LOUD = re.compile(r"\[(?:THINK|THOUGHT|REASONING)")
"""Matches a tag in square brackets that needs no closing tag. Any other one needs a closing tag, unless it begins the answer."""
_CLOSED = re.compile(rf"[\[{{(【]/({_NAME})[\]}})】]", re.IGNORECASE)
_HEADING = (
    r"(?:\#{{1,6}}[ \t]*)?[*_]{{0,3}}(?:my[ ]|the[ ])?(?i:{})"
    r"(?:[*_]{{0,3}}[ \t]*(?:[:：]|\.\.\.|…)[*_]{{0,3}}|[*_]{{0,3}}[ \t]*\n)"
)
_THINKS = r"thinking(?:[ ]process)?|thought[ ]process|chain[- ]of[- ]thought|internal[ ]monologue"
_THOUGHTS = (
    rf"{_THINKS}|thoughts?|reasoning(?:[ ]process)?|rationale|scratchpad|pensées?|réflexion|raisonnement|gedanken(?:gang)?"
    r"|überlegung(?:en)?|pensamientos?|razonamiento|ragionamento|raciocínio|рассуждени[ея]|размышлени[ея]|思考(?:过程|過程)?|推理(?:过程)?|التفكير"
)
_ANSWER = r"\n[ \t]*" + _HEADING.format(
    r"(?:final[ ])?(?:answer|response|output|verdict|rating|score|summary)|réponse|antwort|respuesta|risposta|resposta|ответ"
    r"|(?:最终)?(?:回答|答案)|答え|الإجابة|الجواب"
)
_RULE = r"\n[ \t]*[-*_]{3,}[ \t]*\n"
_BLOCKS = tuple(
    (re.compile(begin, re.DOTALL), re.compile(end, re.DOTALL))
    for begin, end in (
        # The harmony format after some servers have removed its special tokens.
        (r"\s*analysis(?=[A-Z]|.*assistantfinal)", r".*assistantfinal"),
        # Gemma, MedGemma and Granite.
        (r"\s*<\|channel>thought", r"<channel\|>"),
        (r"\s*<unused94>thought", r"<unused95>"),
        (r"\s*Here(?:'s| is) my thought process:", r"Here(?:'s| is) my response:"),
        # Apriel, and Ollama's command line.
        (r"\s*Here are my reasoning steps:", r"\[BEGIN FINAL RESPONSE\]"),
        (r"\s*Thinking\.\.\.\n", r"\.\.\. ?done thinking\."),
        # A quoted block, and headings.
        (rf"\s*>[ \t]*{_HEADING.format(_THOUGHTS)}", r"\n(?=[^>\s])"),
        (rf"\s*{_HEADING.format(_THOUGHTS)}(?=.*{_ANSWER})", _ANSWER),
        # Without an end, the answer is unusable, unless JSON follows: text around JSON is ignored.
        (rf"\s*{_HEADING.format(_THINKS)}(?:(?=.*{_RULE})|(?!.*\{{))", _RULE),
    )
)
"""Patterns of thinking at the start of an answer, as (beginning, end)."""
_WRAPPED = re.compile(
    r"<(answer|response|output|solution|result|summary|final(?:_answer|_response)?)>((?:(?!</\1>).)*)</\1>|<\|(?:begin_of_solution|start_response)\|>(.*)"
    r"|\$*\\boxed\{(.*)\}\$*",
    re.DOTALL | re.IGNORECASE,
)
_EDGE_TOKENS = re.compile(
    r"\A(?:\s*<\|\w+\|>(?:assistant\b)?)+\s*"
    r"|(?:(?:<\|\w+\|>|\[\|\w+\|\]|\[END FINAL RESPONSE\]|<end_of_turn>|</s>|<\uff5cend\u2581of\u2581sentence\uff5c>)\s*){1,9}\Z",
    re.IGNORECASE,
)
_QUOTES = "\"'`\u2018\u2019\u201c\u201d\u00ab\u00bb"
_WITHIN = re.compile(r"(?:[\w,;(&/*\u2022\u2013\u2014-]|^\s*\d+[.)])\s*\Z")
"""Matches the text before a tag on its line, if the tag is part of a sentence or of a list entry."""
_GOES_ON = re.compile(r"[ \t]+[^\W\d_A-Z]|[.,;:!?)\"'`]")
"""Matches the text after such a tag."""


def final_text(text: str, finish_reason: str = "stop") -> str:
    """Return the answer without thinking. Raise UnusableAnswer if it was cut at the token limit (`finish_reason` "length"), if
    its thinking does not end, or if it has no other content."""
    if finish_reason == "length":
        raise UnusableAnswer("cut_answer", "the answer was cut at the token limit; give the model a larger max_tokens")
    if not (answer := remove_thinking(text)):
        raise UnusableAnswer("empty_answer", "the answer is empty")
    return answer


# Cached, because a strategy and its benchmark read the same answers, and a plan reads the same assumed answers for all items.
@functools.lru_cache(maxsize=64)
def remove_thinking(text: str) -> str:
    """Remove thinking, end tokens and tags around the whole answer; strip the rest.

    Thinking is between tags of one name (`<think>`, `[THINK]`, `◁think▷`, `<|begin_of_thought|>`, ...) or in a channel. If only
    the closing tag is present, all text before it is thinking. Tags in code, in quotation marks and within a sentence are text.
    Raises UnusableAnswer for thinking that does not end, since the model has not answered.
    """
    for begin, end in _BLOCKS:
        if begin.match(text):
            ended = end.search(text)
            if ended is None:
                raise _unfinished_thinking()
            text = text[ended.end() :]
    parts: list[str] = []
    start, inside, fenced = 0, "", False
    quoted: dict[str, int] = {}
    closed = {mark[1].lower() for mark in _CLOSED.finditer(text)}
    first = len(text) - len(text.lstrip()) if re.match(r"\s*\[think", text, re.IGNORECASE) else -1
    for mark in _MARK.finditer(text):
        kind, info = mark.lastgroup or "", (mark["info"] or "").strip().lower()
        name, ends = (mark[kind].lower() if kind in ("tag", "name", "token", "token2") else kind), any(mark.group(*_ENDS))
        before, after = text[max(0, mark.start() - 200) : mark.start()].rpartition("\n")[2], text[mark.end() : mark.end() + 80]
        opens_quote = before[-1:] != "" and before[-1:] in _QUOTES
        in_quotes = opens_quote and after[:1] != "" and after[:1] in _QUOTES
        if inside:
            if name == inside and not in_quotes and (ends or name == "info" and not info):
                start, inside = mark.end(), ""
        elif name == "info" and (fenced or not re.fullmatch(_NAME, info)):
            fenced = not fenced
        elif fenced or (mark["open"] and not (ends or name in closed or _LOUD.match(mark[0]) or mark.start() == first)):
            continue
        elif ends:
            within = before[-1:].isspace() and _WITHIN.search(before) and _GOES_ON.match(after)
            paired = name in quoted and "\n" not in text[quoted.pop(name) : mark.start()]
            alone = kind in ("comment", "details") or (kind == "channel" and "<|channel|>" not in mark[0])
            if not (in_quotes or within or paired or alone):
                parts.clear()
                start = mark.end()
        elif opens_quote or _WITHIN.search(before):
            quoted[name] = mark.end()
        else:
            parts.append(text[start : mark.start()])
            inside = name
    if inside:
        raise _unfinished_thinking()
    answer = _EDGE_TOKENS.sub("", "".join((*parts, text[start:])).strip()).strip()
    wrapped = _WRAPPED.fullmatch(answer)
    return (wrapped[2] or wrapped[3] or wrapped[4] or "").strip() if wrapped else answer


def _unfinished_thinking() -> UnusableAnswer:
    return UnusableAnswer("unfinished_thinking", "the answer ends within its thinking; give the model a larger max_tokens")


_MOST_BROKEN = 50
"""Maximum number of opening braces that begin no object. Parsing is tried at each brace, and given up after more failures."""
_DEEPEST = 50
"""Maximum nesting depth when JSON with errors is repaired."""
_LITERALS = {"true": "true", "false": "false", "null": "null", "none": "null"}
_OPEN, _CLOSE = (
    "`\u2018\u201a\u201c\u201e\u00ab\u00bb\u2039\u300c\u300e\uff02",
    "`\u2018\u2019\u201c\u201d\u00bb\u00ab\u203a\u300d\u300f\uff02",
)
"""Quotation marks. Some of them open a quotation in one language and close it in another."""
_END = rf"(?=\s*(?:[,:}}\]，：]|//|/\*|\#|\Z|[\"'{_OPEN}][^\"'{_CLOSE}\n]*[\"'{_CLOSE}]\s*[:：]))"
_TOKEN = re.compile(
    r"(?P<skip>\s+|//[^\n]*|/\*.*?\*/|\#[^\n]*)|(?P<sign>[{}\[\]:,，：])"
    rf"|\"(?P<text>(?:\\.|[^\\])*?)\"{_END}|'(?P<text2>(?:\\.|[^\\])*?)'{_END}"
    rf"|[{_OPEN}](?P<text3>(?:\\.|[^\\])*?)[{_CLOSE}]{_END}"
    rf"|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?){_END}|(?P<word>(?!(?:nan|infinity)\b)[^\W\d]\w*(?:-\w+)*){_END}",
    re.DOTALL | re.IGNORECASE,
)
"""Matches a token of JSON with errors. A quotation mark ends a string only if the string does not go on after it."""
_ESCAPE = re.compile(r"\\(.)|(\")", re.DOTALL)


def json_value(answer: str, *fields: str, kind: type[dict[str, Any]] | type[list[Any]] = dict) -> Any:
    """Return the only JSON object of an answer, or with `kind=list` its only list. Several values must be equal. `fields`:
    required names.

    Raises UnusableAnswer ("no_json", "broken_json", "two_answers").
    """
    found = json_objects(answer, *fields) if kind is dict else list(_lists(answer))
    if not found:
        raise UnusableAnswer("no_json", "the answer has no JSON" + "".join(f' with "{name}"' for name in fields[:1]))
    if any(other != found[-1] for other in found):
        raise UnusableAnswer("two_answers", "the answer has several JSON values, and they differ")
    return found[-1]


def json_objects(answer: str, *fields: str, optional: Sequence[str] = (), nested: bool = False) -> list[dict[str, Any]]:
    """Return the JSON objects of an answer that have the `fields`, in order. If `nested`, include objects inside another such
    object.

    Case, blanks and underscores in the names of `fields` and `optional` do not matter. An unreadable object is ignored if a
    readable one follows. Otherwise raises UnusableAnswer ("broken_json").
    """
    names = {_plain(name): name for name in (*fields, *optional)}
    objects: list[dict[str, Any]] = []
    begin, n_broken, broken = answer.find("{"), 0, False
    while begin >= 0:
        value, end = _decode(answer, begin)
        if value is None:
            n_broken += 1
            inner = re.split(r"[{}]", answer[begin + 1 : begin + 10_000], maxsplit=1)[0]
            keys = {_plain(key) for key in re.findall(rf"([\w \t-]+?)[\"'{_CLOSE}]?\s*[:：]", inner)}
            broken |= _plain(fields[0]) in keys if fields else bool(keys)
        left = [value]
        while left:
            node = left.pop()
            if isinstance(node, dict):
                named: dict[str, Any] = {key if key in fields else names.get(_plain(key)) or key: node[key] for key in node}
                if len(named) < len(node):
                    raise UnusableAnswer("broken_json", "an object of the answer has a name twice")
                if all(name in named for name in fields):
                    objects.append(named)
                    broken = False
                    if not nested:
                        continue
            left += reversed(list(node.values()) if isinstance(node, dict) else node if isinstance(node, list) else [])
        begin = answer.find("{", end)
        if n_broken > _MOST_BROKEN:
            broken, begin = True, -1
    if not objects and '{\\"' in answer:
        # JSON inside a JSON string.
        return json_objects(re.sub(r'\\(["\\])', r"\1", answer), *fields, optional=optional, nested=nested)
    if broken:
        raise UnusableAnswer("broken_json", "the answer's JSON is broken or cut off")
    return objects


def whole_number(value: Any, name: str = "") -> int | None:
    """Return the whole number in a JSON value, or None. 3, 3.0, "3" and "#3" are 3; with the name "insight", so is "insight
    3"."""
    if isinstance(value, str):
        match = re.fullmatch(rf"(?:{name}\s*(?:point\s*)?)?#?\s*([0-9]{{1,9}})\.?", value.strip(), re.IGNORECASE)
        return int(match[1]) if match else None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _lists(answer: str) -> Iterator[list[Any]]:
    """Yield the outermost lists. A list that is cut off is skipped, with the lists inside it."""
    depth, place, n_broken = 0, 0, 0
    while (begin := answer.find("[", place)) >= 0 and n_broken <= _MOST_BROKEN:
        depth = max(0, depth - answer.count("]", place, begin))
        value, place = (None, begin + 1) if depth else _decode(answer, begin)
        if value is None:
            depth, n_broken = depth + 1, n_broken + 1
        else:
            yield value


def _decode(answer: str, begin: int) -> tuple[Any, int]:
    """Return the JSON object or list that begins at a position, and its end. If there is none, return None and the next
    position."""
    try:
        return _DECODER.raw_decode(answer, begin)
    except RecursionError:
        raise UnusableAnswer("broken_json", "the answer's JSON is nested too deeply") from None
    except ValueError:
        pass
    try:
        text, end = _mend(answer, begin)
        return _DECODER.decode(text), end
    except (ValueError, RecursionError):
        return None, begin + 1


def _mend(answer: str, begin: int) -> tuple[str, int]:
    """Return the repaired JSON text of an object or list, and its end. Raise ValueError if it is cut off or is not JSON.

    It repairs quotation marks (single, curly, or unescaped within a string), unquoted names and words, Python's literals,
    comments, extra commas at an end, and missing commas before a name.
    """
    tokens: list[str] = []
    depth, place = 0, begin
    while not tokens or depth:
        token = _TOKEN.match(answer, place)
        if token is None or depth > _DEEPEST:
            raise ValueError
        kind, written, place = str(token.lastgroup), token[token.lastgroup or 0], token.end()
        if kind == "sign":
            depth += (written in "{[") - (written in "}]")
            if written in "}]" and tokens[-1] == ",":
                tokens.pop()
            tokens.append(written.translate(_SIGNS))
        elif kind != "skip":
            if tokens[-1] not in ("{", "[", ",", ":") and re.match(r"\s*[:：]", answer[place : place + 20]):
                tokens.append(",")
            plain = written if kind == "number" else _LITERALS.get(written.lower()) if kind == "word" else None
            tokens.append(plain or '"' + _ESCAPE.sub(_escape_quotes, written) + '"')
    return "".join(tokens), place


def _escape_quotes(match: re.Match[str]) -> str:
    return '\\"' if match[2] else match[0] if match[1] in '"\\/bfnrtu' else match[1]


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).lower()


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if any(fields[name] != value for name, value in pairs):
        raise ValueError
    return fields


def _finite(number: str) -> float:
    if not math.isfinite(value := float(number)):
        raise ValueError
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_finite, parse_float=_finite, strict=False)

_MARKS = "*_`#>\"'()[] \t\u2018\u2019\u201c\u201d"
_SIGNS = str.maketrans("，：＝／（）＃", ",:=/()#")
_TAG = re.compile(r"</?\w+>")
_FENCE_LINE = re.compile(r"^[ \t]*(?:```|~~~)[\w+-]*[ \t]*$", re.MULTILINE)


def remove_fences(answer: str) -> str:
    """Remove the lines of code fences from the answer."""
    return _FENCE_LINE.sub("", answer).strip()


def read_label(answer: str, labels: Collection[str]) -> str:
    """Return the label at the beginning of lines of an answer, perhaps after a name: `Verdict: **supported**`. `labels` are in
    lower case.

    Text after the label is ignored. Raises UnusableAnswer ("no_label", "two_labels").
    """
    words = "|".join(map(re.escape, sorted(labels, key=len, reverse=True)))
    begins = re.compile(rf"(?:[^\W\d_][\w ]{{0,30}}:[*_`\"' ]*)?({words})(?=[*_`\"' )\]]*(?:[.,:;!(\u2013\u2014-]|\Z))")
    found = {
        match[1]
        for line in _TAG.sub(" ", answer.lower().replace("_", " ").translate(_SIGNS)).splitlines()
        if (match := begins.match(line.strip(_MARKS + "-\u2022")))
    }
    if len(found) != 1:
        kind = "two_labels" if found else "no_label"
        raise UnusableAnswer(kind, f"the answer has {'several labels' if found else 'no label'}; expected {', '.join(labels)}")
    return found.pop()


_LEAD_IN = re.compile(r"\A[^\d\n{]{0,100}:[*_ \t]*\n\s*")
"""Matches a line without a number that ends with a colon."""
_NUMBERED = re.compile(r"\d{1,2}[.)][ \t]+(?=\S*\d|[^\W\d_])")
"""Matches the number of a list entry."""
_LINE = re.compile(
    # The name of the rating, of at most five words, with or without the scale.
    r"(?:[-•] )?(?P<name>[^\W\d_][^\W\d_ -]*(?:[ -][^\W\d_]+){0,4}[*_` ]*(?:\([^()]{1,20}\)[*_` ]*)?"
    r"(?:[:=]|\bis\b|(?<=\s)[-–—](?=\s))[*_` ]*)?"
    r"(?P<number>\d{1,9})(?:\.0+)?"
    r"(?P<tail>[*_` \])]*(?:(?:/|out of|of|von|sur|de|di|su|из)[*_` ]*(?P<high>\d{1,9})(?:\.0+)?[*_` \])]*)?"
    # The rest of the line explains the number: text after a punctuation mark, capitalized words, or words such as "points".
    r"(?:[.!]?|(?:[ ]?[-–—:;,=(]+|[ ]?->)[*_` \"']*(?P<remark>[^\W\d_].*)"
    r"|[.,]?[*_` (\"']+(?:(?-i:[A-Z][\w’'-]*)(?:[ ](?-i:[A-Z][\w’'-]*)){0,4}"
    r"|(?:[^\W\d][\w’'-]* ){0,4}(?:(?:in)?consistent|(?:un)?faithful|(?:ir)?relevant|points?|stars?))[.!)\"'*_`]*))",
    re.IGNORECASE,
)
_OTHERWISE = re.compile(
    r"\A(?:or|to|and|rather|perhaps|maybe|no)\b\W*\d|\b(?:or|rather|perhaps|maybe|no)\W+\d+\W*\Z", re.IGNORECASE
)
"""Matches a remark that names another number: `or 5`, `no, 3`."""
_NAMES_IT = re.compile(r"\b(?:rating|score|grade)\b", re.IGNORECASE)


def read_number(answer: str) -> tuple[int, int | None, str]:
    """Return the whole number in an answer, the end of its scale if given (`4/5`), and the rest of the line.

    The number is on the first line (`4`, `**4**`, `Rating: 4`, `1. 4`, `4 - mostly consistent`), or after the name `rating` or
    `score`. Fractions, ranges and alternatives do not count. Raises UnusableAnswer ("no_rating", "two_ratings").
    """
    first, *rest = _LEAD_IN.sub("", remove_fences(answer)).splitlines() or [""]
    match = _numbered_line(first)
    # Below the first line, a number counts only after its name or alone on its line.
    found = [one for line in rest if (one := _numbered_line(line))]
    named = [one for one in found if (_NAMES_IT.search(one["name"]) if one["name"] else not one["tail"].strip(_MARKS + "."))]
    numbers = {int(one["number"]) for one in ([match] if match else []) + named}
    if not numbers:
        raise UnusableAnswer("no_rating", f"the answer gives no whole number: {first[:60]!r}")
    if len(numbers) > 1:
        raise UnusableAnswer("two_ratings", "the answer has several ratings, and they differ")
    match = match or named[-1]
    return numbers.pop(), int(match["high"]) if match["high"] else None, match["tail"].strip(_MARKS)


def _numbered_line(line: str) -> re.Match[str] | None:
    stripped = _TAG.sub(" ", line.translate(_SIGNS)).strip(_MARKS)
    match = _LINE.fullmatch(stripped) or _LINE.fullmatch(_NUMBERED.sub("", stripped, count=1))
    return None if match is None or _OTHERWISE.search(match["remark"] or "") else match
