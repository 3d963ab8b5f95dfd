"""Converts PDF and office files to text, in a child process with limits on memory and time.

Documents may come from anybody, and may make their parsers loop, crash or fill the memory. The child runs this file as a script.
It converts one file after another, since importing markitdown takes seconds. If a file ends the child, a new child replaces it.
Both directions carry frames: a keyword of 8 bytes, the payload's length, and the payload.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import io
import mimetypes
import os
import resource
import select
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

from summhay_ray.inputs import positive_setting

CONVERTED = (".pdf", ".docx", ".doc", ".pptx", ".xlsx", ".odt", ".rtf", ".epub")
MEMORY = "SUMMHAY_CONVERT_MB"
"""Environment variable: the memory that converting one file may take, in MB (2**20 bytes). Only Linux enforces it."""
MAX_MB = 1024
TIME = "SUMMHAY_CONVERT_SECONDS"
"""Environment variable: the time that converting one file may take, in seconds."""
MAX_SECONDS = 300
LARGEST_TEXT = 400_000_000
"""Maximum bytes of text that are read from the child: 100 million characters of up to four bytes."""

_EXTRA = "pip install 'summhay-ray[documents]'"
_MB = 2**20
_FRAME = struct.Struct(">8sQ")
_TEXT, _FAILED = b"text", b"failed"
_NO_MEMORY = 77
"""Exit code of a child that has reached its memory limit."""
_LINE_MARGIN = 1.0
"""Maximum space between two lines of a paragraph, relative to the height of a line."""
_PR_SET_PDEATHSIG = 1
_ENVIRONMENT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME")
"""The only environment variables that the child inherits. Python may need them to start; none contains a key."""
_FORBIDDEN = ("socket.", "subprocess.", "os.exec", "os.fork", "os.posix_spawn", "os.system")
"""Prefixes of Python's audit events that are blocked, since no conversion needs them."""


class NotConverted(Exception):
    """A file that has no readable text. `kind` is the class of the failure; the message gives the reason and the remedy."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Converter:
    """Converts files one by one in a child process, which starts with the first file and ends with the `with` block.

    Raises UserError if a limit in the environment is not a number.
    """

    def __init__(self) -> None:
        self._limits = (positive_setting(MEMORY, MAX_MB, "MB"), positive_setting(TIME, MAX_SECONDS, "seconds"))
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Converter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            self._end(self._child)

    def text(self, content: bytes, suffix: str) -> str:
        """Return the text of a file. `suffix`: one of `CONVERTED`. Raise NotConverted if it cannot be converted."""
        if importlib.util.find_spec("markitdown") is None:
            raise NotConverted("converter", f"needs a converter: {_EXTRA}")
        fresh = self._child is None
        child = self._child = self._child or self._start()
        answer = self._exchange(child, content, suffix)
        if answer is None:
            status = self._end(child)
            if not fresh and status != -signal.SIGALRM:
                # Earlier files may have left too little memory, so try once more in a new child.
                return self.text(content, suffix)
            raise self._failure(status)
        word, payload = answer
        if word == _TEXT:
            return payload.decode("utf-8", "replace")
        raise NotConverted("converter", f"cannot be converted ({payload.decode('utf-8', 'replace')}); save it as text")

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        # The child imports packages from the same places as this process, except from the current folder.
        environment["PYTHONPATH"] = os.pathsep.join(os.path.abspath(place) for place in sys.path if place)
        # Each thread of a numerical library would reserve memory.
        environment |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            [sys.executable, "-P", __file__, *map(str, self._limits)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # A converter's warnings may contain words of the document.
            stderr=subprocess.DEVNULL,
            env=environment,
        )

    def _exchange(self, child: subprocess.Popen[bytes], content: bytes, suffix: str) -> tuple[bytes, bytes] | None:
        """Return the keyword and the payload of the child's answer, or None if the child ended without one. Raise
        NotConverted."""
        assert child.stdin is not None and child.stdout is not None
        # A missing answer shows that the child has ended.
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(_FRAME.pack(suffix.encode(), len(content)))
            child.stdin.write(content)
            child.stdin.flush()
        # A signal ends this wait, whatever handler a library has set. A plain read would continue after the handler that polars
        # sets.
        answered = select.poll()
        answered.register(child.stdout, select.POLLIN)
        answered.poll()
        head = child.stdout.read(_FRAME.size)
        if len(head) < _FRAME.size:
            return None
        word, size = _FRAME.unpack(head)
        if size > LARGEST_TEXT:
            self._end(child)
            why = f"has more than {LARGEST_TEXT // 4 // 10**6} million characters"
            raise NotConverted("too_long", f"{why}; divide it, and mine its parts one by one")
        payload = child.stdout.read(size)
        return (word.rstrip(b"\0"), payload) if len(payload) == size else None

    def _end(self, child: subprocess.Popen[bytes]) -> int:
        """Kill the child unless it has ended. Return its exit code, as `subprocess` does."""
        self._child = None
        child.kill()
        child.communicate()
        return child.returncode

    def _failure(self, status: int) -> NotConverted:
        memory_mb, seconds = self._limits
        if status == -signal.SIGALRM:
            return NotConverted("too_slow", f"took more than {seconds:g} s to convert; save it as text, or set {TIME} higher")
        if status == _NO_MEMORY:
            why = f"took more than {memory_mb:g} MB of memory to convert"
            return NotConverted("too_much_memory", f"{why}; save it as text, or set {MEMORY} higher")
        how = signal.Signals(-status).name if status < 0 else f"exit code {status}"
        return NotConverted("converter", f"ended its converter ({how}); save it as text")


def _serve(memory_mb: float, seconds: float) -> None:
    """Answer the parent's requests until it closes the pipe. This is the child's main loop."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # The default actions end the process immediately, even in the middle of C code.
    for number in (signal.SIGALRM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    # A core dump would contain the document.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # A converter's prints must not mix with the answers.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    reader = None
    while len(head := requests.read(_FRAME.size)) == _FRAME.size:
        suffix, size = _FRAME.unpack(head)
        content = requests.read(size)
        try:
            reader = reader or _confined_reader(memory_mb)
            from markitdown import StreamInfo

            signal.setitimer(signal.ITIMER_REAL, seconds)
            info = StreamInfo(extension=suffix.rstrip(b"\0").decode())
            found = reader.convert_stream(io.BytesIO(content), stream_info=info)
            word, payload = _TEXT, found.text_content.encode("utf-8", "replace")
        # The only place that catches everything: a converter and its parsers may raise anything for a damaged file.
        except BaseException as error:  # noqa: BLE001
            if _lacks_memory(error):
                os._exit(_NO_MEMORY)
            word, payload = _FAILED, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}".encode("utf-8", "replace")
        signal.setitimer(signal.ITIMER_REAL, 0)
        answers.write(_FRAME.pack(word, len(payload)))
        answers.write(payload)
        answers.flush()


def _confined_reader(memory_mb: float) -> Any:
    """Return a MarkItDown, after limiting this process's memory and blocking its access to anything outside itself."""
    from markitdown import MarkItDown, converters

    # With all its converters, MarkItDown mistakes a damaged file for plain text.
    reader = MarkItDown(enable_builtins=False, enable_plugins=False)
    for kind in ("Docx", "Pptx", "Xlsx", "Epub"):
        reader.register_converter(getattr(converters, f"{kind}Converter")())
    reader.register_converter(_pdf_converter(converters.PdfConverter))
    # The child reads the table of file types now, since it cannot open this file later.
    mimetypes.init()
    if sys.platform == "linux":
        # RLIMIT_AS would also count memory that threads reserve and never use. RLIMIT_DATA counts the sixth field of `statm`.
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[5])
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = pages * resource.getpagesize() + int(memory_mb * _MB)
        resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    packages = Path(sys.modules["markitdown"].__file__ or "").parents[1]
    readable = tuple(os.path.join(os.path.abspath(folder), "") for folder in (sys.prefix, sys.base_prefix, packages))

    def confine(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and not isinstance(path := arguments[0], int):
            allowed = os.path.abspath(os.fsdecode(path)).startswith(readable) and not arguments[2] & (os.O_WRONLY | os.O_RDWR)
        else:
            allowed = not event.startswith(_FORBIDDEN)
        if not allowed:
            raise PermissionError(f"a document may not make its converter use {event} {str(arguments[0])[:100]}")

    sys.addaudithook(confine)
    return reader


def _pdf_converter(base: Any) -> Any:
    """Return markitdown's converter of PDF files, but with the text layout of pdfminer.

    markitdown mistakes text in columns for tables, and joins words that are close: `| There are6categoriesto | | consider |`.
    """

    class Pdf(base):  # type: ignore[misc]
        def convert(self, file_stream: Any, *_: Any, **__: Any) -> Any:
            from markitdown import DocumentConverterResult
            from pdfminer import high_level, layout

            # By default, each line of text with normal line spacing would become a paragraph.
            return DocumentConverterResult(
                high_level.extract_text(file_stream, laparams=layout.LAParams(line_margin=_LINE_MARGIN))
            )

    return Pdf()


def _lacks_memory(error: BaseException) -> bool:
    """Whether the error, or one that markitdown has collected in it, means that memory ran out."""
    text = f"{type(error).__name__}: {error}".lower()
    return any(words in text for words in ("memoryerror", "out of memory", "memory allocation", "bad_alloc", "bad allocation"))


if __name__ == "__main__":
    try:
        _serve(float(sys.argv[1]), float(sys.argv[2]))
    except MemoryError:
        os._exit(_NO_MEMORY)
