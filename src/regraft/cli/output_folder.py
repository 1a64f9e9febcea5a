"""The folder of ``--out``: looked at before anything is computed, for results come at the end."""

from __future__ import annotations

from pathlib import Path

from regraft.support.files import explaining_full_disk, try_writing

_OTHER = "choose another folder with --out"


def check_output(out: Path) -> None:
    """Raise ``ValueError`` or ``OSError`` with one sentence if no results can be written there.

    A file is written to the folder, or else to the folder that it is to be made in, and removed.
    """
    try:
        nearest = _find_nearest(out)
        with explaining_full_disk(out):
            try_writing(nearest)
    except PermissionError:
        raise ValueError(f"{out} is not writable: {_OTHER}.") from None
    except OSError as error:
        if error.strerror is None:  # it is a sentence already
            raise
        raise ValueError(f"{out} cannot be written to ({error.strerror}): {_OTHER}.") from None


def _find_nearest(out: Path) -> Path:
    """Return the folder, or the nearest one above it that is there."""
    for folder in (out, *out.absolute().parents):
        try:
            folder.lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        if folder.is_dir():
            return folder
        kind = "a link to nothing" if folder.is_symlink() and not folder.exists() else "a file"
        raise ValueError(f"{folder} is {kind}: {_OTHER}.")
    raise ValueError(f"{out} is on no drive: {_OTHER}.")
