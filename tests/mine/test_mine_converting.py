"""PDF and office files are converted in a child process with limits, from bytes that `inputs` reads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import psutil
import pytest

from summhay_ray.errors import UserError
from summhay_ray.mine import converting, read_folder

pytestmark = pytest.mark.core

linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems enforce no limit on memory")

STAND_IN = """
import types

class MarkItDown:
    def __init__(self, **options): pass
    def register_converter(self, converter): pass
    def convert_stream(self, stream, stream_info):
        names = {}
        exec(stream.read(), names)
        return types.SimpleNamespace(text_content=names["text"])

StreamInfo = types.SimpleNamespace
converters = types.SimpleNamespace(
    **{f"{kind}Converter": object for kind in ("Pdf", "Docx", "Pptx", "Xlsx", "Epub")}
)
"""
"""A converter that does what its document says, as one does whose parser has a hole."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (made := tmp_path / "documents").mkdir()
    return made


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (package := tmp_path / "packages" / "markitdown").mkdir(parents=True)
    (package / "__init__.py").write_text(STAND_IN, encoding="ascii")
    monkeypatch.syspath_prepend(package.parent)


def write(folder: Path, **documents: str) -> Path:
    for name, program in documents.items():
        (folder / f"{name}.pdf").write_text(program, encoding="ascii")
    return folder


FORBIDDEN = [
    ("while True: pass", "too_slow", "took more than 1 s to convert; save it as text, or set SUMMHAY_CONVERT_SECONDS higher"),
    ("import time; time.sleep(60)", "too_slow", "took more than 1 s"),
    ("text = 'x' * 10**9", "too_much_memory", "more than 100 MB of memory to convert; save it as"),
    ("import os; os.kill(os.getpid(), 11)", "converter", "ended its converter (SIGSEGV); save it as text"),
    ("import os; os._exit(0)", "converter", "ended its converter (exit code 0); save it as text"),
    ("raise SystemExit(5)", "converter", "cannot be converted (SystemExit: 5)"),
    ("raise KeyError('no\\n\\nfont')", "converter", "cannot be converted (KeyError"),
    ("import socket; socket.create_connection(('127.0.0.1', 1))", "converter", "may not"),
    ("import urllib.request; urllib.request.urlopen('http://127.0.0.1:1')", "converter", "may not"),
    ("import os; os.system('true')", "converter", "may not"),
    ("import subprocess; subprocess.run(['true'])", "converter", "may not"),
    ("text = open('secret').read()", "converter", "may not"),
    (
        "import os, sys; text = open(os.path.join(sys.prefix, '../' * 20 + os.getcwd() + '/secret')).read()",
        "converter",
        "may not",
    ),
    ("import os; text = os.read(os.open('secret', os.O_RDONLY), 9)", "converter", "may not"),
    ("text = open('/proc/self/environ').read()", "converter", "may not"),
    ("import sys; open(sys.prefix + '/planted', 'w')", "converter", "may not"),
]
"""Programs of documents, and the failure of each: its error, and words of its message."""


def test_what_documents_may_not_do_is_a_failure_of_each(
    folder: Path, tmp_path: Path, hostile: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUMMHAY_CONVERT_SECONDS", "1")
    monkeypatch.setenv("SUMMHAY_CONVERT_MB", "100")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_text("hidden", encoding="ascii")
    (folder / "good.txt").write_text("A note.", encoding="ascii")
    # Other systems do not limit memory.
    cases = [case for case in FORBIDDEN if case[1] != "too_much_memory" or sys.platform == "linux"]
    sources, unread = read_folder(write(folder, **{f"{n:02}": program for n, (program, _, _) in enumerate(cases)}))
    assert [source.document_id for source in sources] == ["good.txt"]
    for (program, kind, words), found in zip(cases, sorted(unread, key=lambda one: one.document_id), strict=True):
        assert (found.error, words in found.message, "\n" in found.message) == (kind, True, False), (program, found)


@linux
def test_one_child_converts_file_after_file_and_is_replaced_when_one_has_ended_it(
    folder: Path, hostile: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUMMHAY_CONVERT_MB", "100")
    process = "import os; text = str(os.getpid())"
    hoard = f"import sys; sys.hoard = b'x' * 70_000_000; {process}"
    thirst = f"large = b'x' * 70_000_000; {process}"
    crash = "import os; os.abort()"
    sources, unread = read_folder(write(folder, a=process, b="1 / 0", c=process, d=crash, e=hoard, f=thirst, g=process))
    children = {source.document_id[0]: source.text for source in sources}
    assert [one.document_id for one in unread] == ["b.pdf", "d.pdf"]
    assert children["a"] == children["c"] != children["e"] != children["f"] == children["g"]


def test_a_child_inherits_no_key_and_prints_nothing(
    folder: Path, hostile: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    noise = "import os, sys; print('noise'); os.write(1, b'noise'); os.write(2, b'noise'); print('noise', file=sys.stderr)"
    sources, unread = read_folder(write(folder, a=f"{noise}; text = ' '.join(os.environ)", b="text = 'last'"))
    assert not unread and sources[1].text == "last"
    # LC_CTYPE is Python's own.
    known = {"PYTHONPATH", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "LC_CTYPE", *converting._ENVIRONMENT}
    assert set(sources[0].text.split()) <= known
    assert capfd.readouterr() == ("", "")


def test_a_text_without_end_is_not_taken_in(folder: Path, hostile: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converting, "LARGEST_TEXT", 4_000_000)
    sources, unread = read_folder(write(folder, a="text = 'x' * 4_000_001", b="text = 'x' * 4_000_000"))
    assert [len(source.text) for source in sources] == [4_000_000]
    assert [(one.document_id, one.error) for one in unread] == [("a.pdf", "too_long")] and "1 million" in unread[0].message


@pytest.mark.parametrize("name", [converting.MEMORY, converting.TIME])
def test_a_limit_that_is_no_number_is_refused(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "much")
    with pytest.raises(UserError, match=f"{name} is 'much'; expected a number"):
        read_folder(folder)


@linux
@pytest.mark.parametrize(
    "number", [signal.SIGKILL, *(pytest.param(number, marks=pytest.mark.soak) for number in (signal.SIGINT, signal.SIGTERM))]
)
def test_the_child_ends_with_a_program_that_ends(number: signal.Signals, folder: Path, hostile: None) -> None:
    # A main module without a guard, like a program that embeds this package.
    documents = str(write(folder, a="while True: pass"))
    program = f"from pathlib import Path; from summhay_ray.mine import read_folder; read_folder(Path({documents!r}))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    # A shell's background processes ignore SIGINT.
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen([sys.executable, "-c", program], env=environment, stderr=subprocess.DEVNULL) as parent:
        signal.signal(signal.SIGINT, heard)
        try:
            child = wait_for_busy_child(parent.pid)
        except BaseException:
            parent.kill()
            raise
        parent.send_signal(number)
        assert parent.wait(30) == -number
    until = time.monotonic() + 20
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < until
        time.sleep(0.02)


def wait_for_busy_child(pid: int) -> psutil.Process:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for child in psutil.Process(pid).children():
            if child.cpu_times().user > 0.5:
                return child
        time.sleep(0.05)
    raise AssertionError("no child works")


def test_what_no_command_reads_reaches_no_converter(
    folder: Path, tmp_path: Path, hostile: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUMMHAY_MAX_FILE_MB", "1")
    (tmp_path / "outside.pdf").write_text("text = 'outside'", encoding="ascii")
    os.mkfifo(folder / "pipe.pdf")
    (folder / "device.docx").symlink_to("/dev/zero")
    (folder / "itself.docx").symlink_to("itself.docx")
    (folder / "link.pdf").symlink_to("../outside.pdf")
    (folder / "inside.pdf").symlink_to("good.pdf")
    (folder / "large.xlsx").write_bytes(b" " * 2**21)
    (folder / "folder.pdf").mkdir()
    sources, unread = read_folder(write(folder, good="text = 'good'"))
    assert [(source.document_id, source.text) for source in sources] == [("good.pdf", "good"), ("inside.pdf", "good")]
    assert {one.document_id: one.error for one in unread} == {
        "device.docx": "outside",
        "itself.docx": "unreadable",
        "large.xlsx": "unreadable",
        "link.pdf": "outside",
        "pipe.pdf": "unreadable",
    }


TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="xml" ContentType="application/xml"/>'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/></Types>'
)
RELATION = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" Type='
    '"http://schemas.openxmlformats.org/officeDocument/2006/relationships/{}" Target="{}"{}/></Relationships>'
)
DOCUMENT = '{}<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>{}</w:body></w:document>'
IMAGE = (
    '<w:p><w:r><w:drawing><wp:inline xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing">'
    '<a:graphic xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><a:graphicData>'
    '<pic:pic xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture"><pic:blipFill><a:blip '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" r:link="r1"/></pic:blipFill></pic:pic>'
    "</a:graphicData></a:graphic></wp:inline></w:drawing></w:r></w:p>"
)


def word(path: Path, text: str, head: str = "", after: str = "", image: str = "") -> None:
    """Write a Word document of one paragraph. `image`: the address of a linked image."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
        packed.writestr("[Content_Types].xml", TYPES)
        packed.writestr("_rels/.rels", RELATION.format("officeDocument", "word/document.xml", ""))
        packed.writestr("word/_rels/document.xml.rels", RELATION.format("image", image, ' TargetMode="External"'))
        body = f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>{IMAGE if image else ''}{after}"
        packed.writestr("word/document.xml", DOCUMENT.format(head, body))


@linux
def test_documents_that_expand_lie_or_reach_outside_are_converted_or_failures(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("markitdown", reason="the converter needs the extra documents")
    monkeypatch.setenv("SUMMHAY_CONVERT_MB", "40")
    secret = tmp_path / "secret.txt"
    secret.write_text("TOPSECRET", encoding="ascii")
    word(folder / "bomb.docx", "A" * 50_000_000)
    word(folder / "good.docx", "The pump in hall 3 stops.")
    word(folder / "entity.docx", "Read &x; here.", head=f'<!DOCTYPE d [<!ENTITY x SYSTEM "{secret.as_uri()}">]>')
    nested = "".join(f'<!ENTITY {name} "{f"&{before};" * 10}">' for before, name in zip("abcdefghi", "bcdefghij", strict=True))
    word(folder / "lol.docx", "&j;", head=f'<!DOCTYPE d [<!ENTITY a "lol ">{nested}]>')
    word(folder / "image.docx", "It links a picture.", image=secret.as_uri())
    (folder / "lying.docx").write_bytes(b"%PDF-1.4 nothing")
    (folder / "z.txt").write_text("The valve leaks.", encoding="ascii")
    sources, unread = read_folder(folder)
    texts = {source.document_id: source.text for source in sources}
    assert texts["good.docx"] == "The pump in hall 3 stops." and texts["z.txt"] == "The valve leaks."
    assert not any("TOPSECRET" in text for text in [*texts.values(), *(one.message for one in unread)])
    failures = {one.document_id: one.error for one in unread}
    assert failures["bomb.docx"] == "too_much_memory"
    assert failures["lol.docx"] == failures["lying.docx"] == "converter"
    assert len(texts) + len(failures) == 7
