"""A domain is one YAML file; errors in it are one line."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from importlib import resources
from pathlib import Path

import pytest

from summhay_ray.errors import UserError
from summhay_ray.plugins import UnknownName
from summhay_ray.synth import Domain, load_domain, parse_domain
from summhay_ray.synth.making.asking import GROUP_OF
from summhay_ray.synth.making.domains import TASKS, domain_names

pytestmark = pytest.mark.core

LEAST = "name: recipes\ngenre: a family recipe\n"
OWN = "Write it.\n\nInput:\n[[INPUT]]\n"


def test_four_domains_are_shipped_and_each_has_every_prompt() -> None:
    assert domain_names() == ("conversation", "incident_reports", "news", "product_reviews")
    for name in domain_names():
        domain = load_domain(name)
        assert domain.name == name
        assert set(domain.prompts) == set(TASKS) and len(TASKS) == 13
        for text in domain.prompts.values():
            assert text.endswith("\nInput:\n[[INPUT]]\n") and text.count("[[INPUT]]") == 1


def test_the_papers_two_domains_are_written_as_in_the_paper() -> None:
    conversation, news = load_domain("conversation"), load_domain("news")
    assert (conversation.method, conversation.tries, len(conversation.participants)) == ("chapters", 10, 3)
    assert (news.method, news.rounds, news.participants) == ("whole", 5, ())
    assert conversation.words == news.words == 750


def test_a_domain_s_own_prompt_replaces_only_that_shipped_one() -> None:
    news, reviews = load_domain("news").hashes(), load_domain("product_reviews").hashes()
    assert {task for task in TASKS if news[task] != reviews[task]} == {"subtopics"}
    own = parse_domain(f"{LEAST}prompts:\n  query: |\n    Ask it.\n\n    Input:\n    [[INPUT]]\n", "own.yaml")
    text = "Ask it.\n\nInput:\n[[INPUT]]\n"
    assert own.prompts["query"] == text
    assert own.hashes()["query"] == hashlib.sha256(text.encode()).hexdigest()
    assert {task for task in TASKS if own.hashes()[task] != news[task]} == {"query"}


def test_the_reference_names_every_field_and_every_task_with_its_answer() -> None:
    text = resources.files("summhay_ray.synth").joinpath("domains/README.md").read_text(encoding="utf-8")
    named = [line.split("`")[1] for line in text.splitlines() if line.startswith("| `")]
    assert named == [*(one.name for one in fields(Domain)), *named[-13:]] and sorted(named[-13:]) == sorted(TASKS)
    groups = {line.split("`")[1]: line.split("|")[2].strip() for line in text.splitlines() if line.startswith("| `")}
    assert {task: groups[task] for task in TASKS} == dict(GROUP_OF)
    first = text.partition("```yaml\n")[2].partition("```")[0]
    assert parse_domain(first, "README.md").name == "council_minutes"


def test_a_fifth_domain_is_one_file_of_two_lines(tmp_path: Path) -> None:
    file = tmp_path / "recipes.yaml"
    file.write_text(LEAST + "participants: [Oma, ' Kind ']\nlanguage: Deutsch\nmethod: chapters\n", encoding="utf-8")
    domain = load_domain(str(file))
    assert (domain.name, domain.language, domain.method) == ("recipes", "Deutsch", "chapters")
    assert domain.participants == ("Oma", "Kind")
    defaults = {one.name: one.default for one in fields(Domain)}
    assert (
        (domain.words, domain.tries, domain.rounds) == (defaults["words"], defaults["tries"], defaults["rounds"]) == (750, 10, 5)
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected lines such as 'genre: a news article' (field: value), found nothing"),
        ("[1, 2]", "expected lines such as 'genre: a news article' (field: value), found a list"),
        ("name: a", "field 'genre' is missing"),
        (LEAST + "tune: x", "no field is named 'tune'; did you mean 'tone'?"),
        (LEAST + "7: x", "no field is named 7; known: name"),
        (LEAST + "tone: ''", "tone: expected text, found empty text"),
        (LEAST + "tone:", "tone: expected text, found nothing"),
        (LEAST + "words: 0", "words: expected a whole number from 20 to 100000, found 0"),
        (LEAST + "rounds: 1000000", "rounds: expected a whole number from 0 to 100000, found 1000000"),
        (LEAST + "tries: 1.5", "tries: expected a whole number from 0 to 100000, found 1.5"),
        (LEAST + "method: chapter", "method: expected chapters or whole, found 'chapter'; did you mean 'chapters'?"),
        (LEAST + "participants: Ann", "participants: expected a list of texts such as [Ann, Bo], found text"),
        (LEAST + "participants: [1, 2]", "a list of texts such as [Ann, Bo], found 1 at place 0; put it in quotes"),
        (LEAST + "participants: [Ann, no]", "a list of texts such as [Ann, Bo], found False at place 1; put it in quotes"),
        (LEAST + "participants: [Ann, ' ', Bo]", "such as [Ann, Bo], found text at place 1"),
        (LEAST + "prompts: x", "prompts: expected entries"),
        (LEAST + "prompts: {querry: x}", "prompts: no task is named 'querry'; did you mean 'query'?"),
        (LEAST + "prompts: {query: ask}", "prompts.query: its last two lines must be 'Input:' and '[[INPUT]]'"),
        (LEAST + 'prompts: {query: "[[INPUT]]\\nInput:\\n[[INPUT]]"}', "prompts.query: its last two lines"),
        (LEAST + "tone: a\ntone: b", "line 4, column 1: not YAML: duplicate key 'tone'; remove one"),
        (LEAST + "tone: !!python/name:os.system x", "not YAML"),
        (LEAST + "tone: 2020-13-45", "not YAML"),
    ],
)
def test_errors_in_a_file_are_one_line(text: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_domain(text, "own.yaml")
    assert str(caught.value).startswith("own.yaml:") and said in str(caught.value)
    assert "\n" not in str(caught.value) and isinstance(caught.value, UserError)


def test_an_unknown_name_and_an_unreadable_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="no domain is named 'newss'"):
        load_domain("newss")
    with pytest.raises(UserError, match="cannot be read as a domain .No such file"):
        load_domain(str(tmp_path / "none.yaml"))
    broken = tmp_path / "broken.yml"
    broken.write_bytes(b"name: \xff")
    with pytest.raises(UserError, match="not UTF-8"):
        load_domain(str(broken))
