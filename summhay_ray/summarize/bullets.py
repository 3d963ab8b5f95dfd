"""Splits a summary into bullets, and detects refusals."""

from __future__ import annotations

import re
from collections.abc import Sequence

from summhay_ray.metrics import read_citations

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
    r"""The non-blank lines of an answer, stripped, in order; split on "\n" only (paper, section 4.1).

    Headings, introductions and remarks count as bullets, as in the release: judges number all of them from 1. A list of
    references is left out (see `without_references`).
    """
    return without_references([line.strip() for line in text.split("\n") if line.strip()])


def without_references(lines: Sequence[str]) -> tuple[str, ...]:
    """The lines without lists of references: they name what was cited, and claim nothing.

    Left out are a heading such as `References:` with the entries below it, a line such as `Sources: [1], [2]`, an entry that is
    only a file's name or an address (`1. a.txt`), and definitions of footnotes (`[^1]: ...`).
    """
    kept: list[str] = []
    listing = False
    for line in lines:
        heading = _SOURCES.match(line)
        entry = _ENTRY.match(line)
        rest = line[entry.end() :] if entry else line
        cites = listing and any(group.begin == 0 for group in read_citations(line).groups)
        if heading and not _said(line[heading.end() :]):
            listing = not line[heading.end() :]
            if kept and _RULE.fullmatch(kept[-1]):
                kept.pop()
        elif (
            _DEFINITION.match(line)
            or (entry and _FILE_OR_URL.fullmatch(rest))
            or (listing and (entry or cites or not _said(rest)))
        ):
            pass
        else:
            listing = False
            kept.append(line)
    return tuple(kept)


def _said(text: str) -> str:
    """The remainder of a text without citations, names of files, addresses and punctuation."""
    for group in reversed(read_citations(text).groups):
        text = text[: group.begin] + " " + text[group.end :]
    return _NO_WORDS.sub("", _FILE_OR_URL.sub(" ", text))


def refuses(text: str) -> bool:
    """Whether an answer is a refusal: short, without citations, and beginning with "I cannot help", "I'm unable to ..."."""
    answer = text.strip()
    return len(answer) <= _LONGEST_REFUSAL and not re.search(r"\[[\d, ]+\]", answer) and bool(_REFUSAL.match(answer))
