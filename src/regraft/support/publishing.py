"""Results of several files that appear together: staged in a hidden folder, published by a rename.

A stage lies in the folder that it is meant for, under a name that says that it is not finished.
Renaming it to ``READY`` publishes it: from then on its files only have to be moved to their places,
which any process can do, also after a kill. Other files in the folder are left alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from regraft.support.files import (
    exclusive,
    explaining_full_disk,
    hold,
    remove,
    remove_abandoned,
    sibling,
    sync_folder,
)

READY = ".regraft-ready"  # published, and not all of it moved to its place yet
_STAGE = "regraft-new"
# What files are called until they are renamed: in the stage, or a dot, digits and a tilde.
_PATH_OF_STAGE = rf"\.{_STAGE}\.[0-9a-f]{{8}}~[\\/]new"
_IN_STAGE = re.compile(rf"{_PATH_OF_STAGE}[\\/]|[\\/]?{_PATH_OF_STAGE}")
_TEMPORARY = re.compile(r"(^|[\\/])\.([^\\/]+)\.[0-9a-f]{8}~$")
_NEW, _REPLACED = "new", "replaced"  # in a stage: the files, and the folders that they replace


class Stage:
    """A hidden folder in ``folder``, which is made, for files that are to appear there together."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._root = folder, sibling(folder / _STAGE)
        self.path = self._root / _NEW
        self._made_folder = not folder.exists()
        with explaining_full_disk(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with exclusive(folder):  # nobody cleans up before the stage is held
                finish_publication(folder, is_alone=True)
                remove_abandoned(folder / _STAGE)
                self.path.mkdir(parents=True)
                self._descriptor = None if os.name == "nt" else os.open(self._root, os.O_RDONLY)
                if self._descriptor is not None:
                    hold(self._descriptor)

    def publish(self) -> None:
        """Move all files and folders of the stage to their places, which have to be free or alike.

        The caller is alone in the folder (``exclusive``). Raises ``ValueError`` with one sentence
        if a folder lies in the place of a file or the other way round.
        """
        for entry in self.path.iterdir():
            target = self.folder / entry.name
            if target.exists() and target.is_dir() != entry.is_dir():
                kind = "folder" if target.is_dir() else "file"
                raise ValueError(f"{target} is a {kind}: move it, or choose another folder.")
        with explaining_full_disk(self.folder):
            (self._root / _REPLACED).mkdir()
            _sync(self._root)
            self._root.rename(self.folder / READY)
            sync_folder(self.folder)
        try:
            _move(self.folder)
        except KeyboardInterrupt:
            _move(self.folder)
            raise

    def close(self) -> None:
        """Remove what was not published, and the folder if it was made for that alone."""
        if self._root.exists():
            remove(self._root)
            if self._made_folder:
                with suppress(OSError):  # it holds something else
                    self.folder.rmdir()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@contextmanager
def publishing(folder: Path) -> Iterator[Path]:
    """Yield a folder for files that appear in ``folder`` together at the end, none at an error."""
    stage = Stage(folder)
    try:
        yield stage.path
        with exclusive(folder):
            finish_publication(folder, is_alone=True)
            stage.publish()
    finally:
        stage.close()


def finish_publication(folder: Path, *, is_alone: bool = False) -> None:
    """Move what a killed process has published in ``folder``, but not yet moved to its place.

    With ``is_alone``, the caller has the lock of the folder. Raises ``ValueError`` with one
    sentence if the folder cannot be written to.
    """
    if not (folder / READY).is_dir():
        return
    try:
        if is_alone:
            _move(folder)
            return
        with exclusive(folder):
            if (folder / READY).is_dir():
                _move(folder)
    except PermissionError:
        raise ValueError(
            f"{folder} was left by a command that was killed, and cannot be put in order: make it "
            "writable."
        ) from None


def _move(folder: Path) -> None:
    ready = folder / READY
    for entry in sorted((ready / _NEW).iterdir()) if (ready / _NEW).is_dir() else ():
        target = folder / entry.name
        if target.is_dir():
            target.rename(sibling(ready / _REPLACED / "old"))  # short: names have an end
        entry.replace(target)
    sync_folder(folder)
    remove(ready)


def _sync(folder: Path) -> None:
    """Flush all files and names in a folder to disk."""
    for entry in folder.iterdir():
        if entry.is_dir():
            _sync(entry)
        else:
            descriptor = os.open(entry, os.O_RDWR)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    sync_folder(folder)


def name_when_done(text: str) -> str:
    """Return a path, or a sentence with one, as it reads when the names of stages are gone.

    At the end of the text, so are those of other temporary files.
    """
    return _TEMPORARY.sub(r"\1\2", _IN_STAGE.sub("", text))
