"""The results of finished and unfinished runs, ours or DomainBed's, read from their folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from regraft.bench.protocol.run_folder import DONE, RESULTS, RunFolder
from regraft.bench.protocol.run_lines import RunLine, read_run_lines
from regraft.bench.protocol.selection import Record, count_environments
from regraft.bench.protocol.setting_differences import describe_differences

_ARGS = {
    "dataset": str,
    "algorithm": str,
    "test_envs": list,
    "trial_seed": int,
    "hparams_seed": int,
}
_KINDS = {int: "an integer", str: "text", list: "a list", dict: "an object"}


class RunKey(NamedTuple):
    """What tells the runs of a sweep apart."""

    dataset: str
    algorithm: str
    test_envs: frozenset[int]
    trial_seed: int
    hparams_seed: int


@dataclass(frozen=True)
class Damage:
    """A line that is no record; lines are counted from one."""

    path: Path
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path} line {self.line}: {self.reason}"


@dataclass(frozen=True)
class Results:
    """One record a checkpoint: its step, accuracies by environment, hparams and args, no more."""

    records: list[dict[str, Any]]
    runs: int
    unfinished: int  # job folders whose run goes on or has failed
    damaged: list[Damage]  # by path and line
    open_runs: frozenset[RunKey]  # those that are not finished, or have damaged lines
    folders: dict[RunKey, Path]


def run_key(record: Record) -> RunKey:
    """Return the run that the record is of."""
    args = record["args"]
    known = {name: args[name] for name in RunKey._fields}
    return RunKey(**known | {"test_envs": frozenset(known["test_envs"])})


def read_results(folder: Path, *, every_line: bool = False) -> Results:
    """Read the records in the job folders of ``folder``, or in ``folder`` if it is one itself.

    A job folder holds a results.jsonl. Of a step that a file has twice, as after a kill, the last
    line counts, unless ``every_line`` is wanted, as DomainBed reads them. Lines that are no records
    are left out and told in ``damaged``. Raises ``FileNotFoundError`` if there is no such folder,
    ``ValueError`` if it holds no record or two folders with the same run, each with one sentence.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder: pass the folder of a sweep.")
    damaged: list[Damage] = []
    records: list[dict[str, Any]] = []
    owners: dict[RunKey, Path] = {}
    settings: dict[RunKey, dict[str, Any]] = {}
    unfinished, open_runs = 0, set[RunKey]()
    is_job = (folder / RESULTS).is_file()
    for job in [folder] if is_job else sorted(path.parent for path in folder.glob(f"*/{RESULTS}")):
        before, is_done = len(damaged), (job / DONE).exists()  # which a run becomes meanwhile
        lines = list(_read(job / RESULTS, damaged))
        keys = {key: record["args"] for (key, _), record in lines}
        unfinished += bool(lines) and not is_done
        if not is_done or len(damaged) > before:
            open_runs |= keys.keys()
        for key, args in keys.items():
            owner = owners.setdefault(key, job)
            if owner is not job:
                differences = describe_differences(settings[key], args) or "the same settings"
                raise ValueError(
                    f"{owner} and {job} both hold {_describe(key)} (with {differences}): collect "
                    "one sweep at a time."
                )
        settings |= keys
        records += [record for _, record in lines] if every_line else dict(lines).values()
    if not records:
        broken = f" ({len(damaged)} damaged lines)" if damaged else ""
        raise ValueError(
            f"{folder} holds no records{broken}: pass a folder whose subfolders have a {RESULTS}."
        )
    return Results(records, len(owners), unfinished, damaged, frozenset(open_runs), owners)


def last_record(folder: RunFolder) -> dict[str, Any]:
    """Return the last record of a run that is done; ``ValueError`` with one sentence if damaged."""
    records = folder.records()
    try:
        if not records:
            raise ValueError("it has no records")
        if folder.ends_damaged:
            raise ValueError("its last line is no record, or was changed since it was written")
        check_record(records[-1])
    except ValueError as error:
        raise ValueError(
            f"{folder.path} is damaged ({error}): remove it to run it again."
        ) from None
    return records[-1]


def _describe(key: RunKey) -> str:
    envs = " and ".join(map(str, sorted(key.test_envs)))
    return (
        f"{key.algorithm} on {key.dataset} with test environment {envs}, trial {key.trial_seed} "
        f"and hparams_seed {key.hparams_seed}"
    )


def _read(path: Path, damaged: list[Damage]) -> Iterator[tuple[tuple[RunKey, int], dict[str, Any]]]:
    """Yield the records by run and step, in the order of the file; append to ``damaged``."""
    previous: dict[str, Any] = {"args": None, "hparams": None}
    key = None
    for read in read_run_lines(path):
        try:
            record = _check(read)
        except ValueError as error:
            reason = str(error) if read.line.is_whole else f"{error}, cut off"
            damaged.append(Damage(path, read.line.number, reason))
            continue
        # A sweep has many lines with the same settings: keeping one copy saves most of the memory.
        if record["hparams"] == previous["hparams"]:
            record["hparams"] = previous["hparams"]
        if key is None or record["args"] != previous["args"]:
            key = run_key(record)
        else:
            record["args"] = previous["args"]
        previous = record
        yield (key, record["step"]), record


def _check(read: RunLine) -> dict[str, Any]:
    """Return the part of a record that is kept; raise ``ValueError`` with a reason."""
    if read.record is None:
        raise ValueError(read.reason)
    return check_record(read.record)


def check_record(record: dict[str, Any]) -> dict[str, Any]:
    """Return what every record has; raise ``ValueError`` with the reason if this is none."""
    for name, kind in {"step": int, "hparams": dict, "args": dict}.items():
        _check_type(record, name, kind)
    for name, kind in _ARGS.items():
        _check_type(record["args"], name, kind)
    n_envs = count_environments(record)
    if n_envs < 2:
        raise ValueError("no accuracies of two environments or more")
    if not all(type(env) is int and 0 <= env < n_envs for env in record["args"]["test_envs"]):
        raise ValueError(f"'test_envs' are not among the {n_envs} environments with accuracies")
    kept = {"step": record["step"], "args": record["args"], "hparams": record["hparams"]}
    for i in range(n_envs):
        for key in (f"env{i}_in_acc", f"env{i}_out_acc"):
            value: Any = record.get(key)
            if type(value) not in (int, float) or not 0 <= value <= 1:  # nor is NaN
                raise ValueError(f"{key!r} is not a number from 0 to 1")
            kept[key] = value
    names = record.get("env_names")
    if isinstance(names, list) and len(names) == n_envs:
        kept["env_names"] = list(map(str, names))
    return kept


def _check_type(values: dict[str, Any], name: str, kind: type) -> None:
    if name not in values:
        raise ValueError(f"{name!r} is missing")
    if type(values[name]) is not kind:  # isinstance would let true pass as an integer
        raise ValueError(f"{name!r} is not {_KINDS[kind]}")
