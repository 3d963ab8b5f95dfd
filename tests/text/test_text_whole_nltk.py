"""NLTK's rules without NLTK, and NLTK itself if several threads need it at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.core

LIGHT = """
import sys
from summhay_ray.extract import extract
from summhay_ray.retrieve.lexical import word_tokens

text = "Dr. Quill can't come. Ten (10) boats; 3.5 tons. The boats sailed."
print(extract(text, "Boats sail.", "rouge-1", [8])[8].text, word_tokens(text)[:5], "nltk" in sys.modules)
"""


def test_sentences_words_and_stems_need_no_nltk() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    assert done.stdout == "The boats sailed. ['dr.', 'quill', 'ca', \"n't\", 'come'] False\n"


AT_ONCE = """
import os, sys, threading
import numpy
import scipy.sparse, scipy.stats

# Slow to import, and not needed here.
sys.modules.update(dict.fromkeys(("sklearn", "matplotlib", "pandas", "tkinter")))
from summhay_ray.extract import extract
from summhay_ray.metrics import rouge
from summhay_ray.retrieve import Bm25, Corpus, Query, rankings

text = "The cats sat. Dogs ran off."
corpus = Corpus("animals", ("a", "b", "c"), ("a running cat", "dogs", "birds"), (Query("q", "cats run"),))
work = {
    "rouge": lambda: rouge("The cats sat.", ["A cat sat."])["rouge1"],
    "stems": lambda: [one.number for one in rankings(Bm25("stems"), corpus)[0] if one.score],
    "rouge-1": lambda: extract(text, "cat", "rouge-1", [5])[5].text,
    "lead": lambda: extract(text, "cat", "lead", [5])[5].text,
}
sys.setswitchinterval(1e-5)

def at_once():
    together, found = threading.Barrier(len(work)), {}

    def do(name):
        together.wait()
        found[name] = work[name]()

    threads = [threading.Thread(target=do, args=(name,)) for name in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found

assert "nltk" not in sys.modules
expected = {"lead": "The cats sat.", "rouge": 2 / 3, "rouge-1": "The cats sat.", "stems": [1]}
for _ in range(2):
    if os.fork() == 0:
        os._exit(at_once() != expected)
assert [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(2)] == [0, 0]
"""


@pytest.mark.soak
def test_threads_of_fresh_processes_take_what_they_need_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", AT_ONCE], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
