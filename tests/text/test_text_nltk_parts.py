"""NLTK's parts are taken without the rest of it, and the rest is there for whoever imports it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.core

CODE = """
import sys
from summhay_ray.retrieve.summhay_words import word_tokens

text = "Dr. Quill can't come. Ten (10) boats; 3.5 tons."
tokens = word_tokens(text)
print([name for name in ("nltk", "scipy", "sklearn") if name in sys.modules])
sys.modules.update(dict.fromkeys(("scipy", "sklearn", "matplotlib")))  # not needed here, and slow
import nltk
from summhay_ray.text import nltk_part

print(nltk_part("stem.porter") is nltk.stem.porter, callable(nltk.word_tokenize), len(tokens), tokens[:5])
"""


def test_words_need_one_module_of_nltk_and_leave_the_package_to_others() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "True True 15 ['dr.', 'quill', 'ca', \"n't\", 'come']"]


@pytest.mark.parametrize("first", ["tokenize.punkt", "stem.porter"])
def test_tokenizers_and_stemmers_come_in_any_order(first: str) -> None:
    code = f"""
from summhay_ray.text import nltk_part
for name in ({first!r}, "tokenize.punkt", "stem.porter", "stem.snowball", "tokenize.destructive", "stem"):
    nltk_part(name)
words = nltk_part("tokenize.destructive").NLTKWordTokenizer().tokenize("can't")
print(nltk_part("stem.porter").PorterStemmer().stem("boats"), *words)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "boat ca n't\n"


BESIDE_IMPORTS = """
import sys, threading, types
from summhay_ray.text import nltk_part

sys.setswitchinterval(1e-6)
begun, ended = threading.Event(), threading.Event()

def importing():
    number = 0
    while not ended.is_set():
        sys.modules[f"made_{number}"] = types.ModuleType("made")
        sys.modules.pop(f"made_{number - 100}", None)
        number += 1
        begun.set()

thread = threading.Thread(target=importing)
thread.start()
begun.wait()
try:
    for _ in range(200):
        nltk_part("tokenize.punkt")
        assert "nltk" not in sys.modules
finally:
    ended.set()
"""


def test_other_threads_may_import_meanwhile() -> None:
    done = subprocess.run([sys.executable, "-c", BESIDE_IMPORTS], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
