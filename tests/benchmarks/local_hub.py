"""The Hugging Face Hub for tests: a server on this machine serves the files of one data set at one commit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from local_http import Answer, Asked, serving


@dataclass
class Hub:
    """`asked` has the paths of all requests."""

    base: str = ""
    asked: list[str] = field(default_factory=list)


@contextmanager
def local_hub(repo: str, commit: str, files: Mapping[str, bytes]) -> Iterator[Hub]:
    """Serve the files within the block, as `main` and by their commit."""
    hub, head = Hub(), f"/datasets/{repo}/resolve/{commit}/"
    siblings = [{"rfilename": name} for name in files]
    known = {"id": repo, "sha": commit, "private": False, "siblings": siblings, "tags": [], "downloads": 0, "likes": 0}
    about, tree = f"/api/datasets/{repo}/revision/", f"/api/datasets/{repo}/tree/"

    def answer(asked: Asked) -> Answer:
        hub.asked.append(asked.path)
        path = asked.path.partition("?")[0]
        content = files.get(path.removeprefix(head)) if path.startswith(head) else None
        if path in (about + "main", about + commit):
            content = json.dumps(known).encode()
        elif path.startswith(tree):
            listed = [{"type": "file", "path": name, "size": len(files[name]), "oid": "0" * 40} for name in files]
            content = json.dumps(listed).encode()
        headers = {"X-Repo-Commit": commit}
        if content is None:
            code = "EntryNotFound" if path.startswith(head) else "RevisionNotFound" if repo in path else "RepoNotFound"
            return Answer(status=404, headers={**headers, "X-Error-Code": code})
        return Answer(content, headers={**headers, "ETag": f'"{hash(content)}"'})

    with serving(answer) as hub.base:
        yield hub
