"""``python -m regraft.domainbed.list_top_hparams``: what was chosen in one cell of the tables."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regraft.cli.failures import PROGRAM


def main(given: list[str]) -> None:
    """Print the configuration that each selection rule chooses, trial by trial."""
    parser = argparse.ArgumentParser(
        prog="python -m regraft.domainbed.list_top_hparams",
        description="The chosen configurations of a cell; regraft collect --json has those of all.",
    )
    parser.add_argument("--input_dir", required=True, type=Path, help="Folder of the runs.")
    parser.add_argument("--dataset", required=True, help="Its name.")
    parser.add_argument("--algorithm", required=True, help="Its name.")
    parser.add_argument("--test_env", required=True, type=int, help="Number of the held-out one.")
    args = parser.parse_args(given)
    try:
        print("\n".join(_lines(args.input_dir, args.dataset, args.algorithm, args.test_env)))
    except (ValueError, FileNotFoundError) as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def _lines(folder: Path, dataset: str, algorithm: str, env: int) -> Iterator[str]:
    from regraft.bench.protocol.collection import collect

    collection = collect(folder, compat=True)
    names = collection.environments.get(dataset, ())
    has_cell = False
    for rule in collection.to_dict()["selections"].values():
        cells: dict[str, Any] = (
            rule["datasets"].get(dataset, {}).get(algorithm, {}).get("cells", {})
        )
        cell = cells.get(names[env]) if 0 <= env < len(names) else None
        if cell is None:
            continue
        has_cell = True
        yield f"Model selection: {rule['title']}"
        for trial in cell["trials"]:
            yield f"trial_seed: {trial['trial_seed']}"
            chosen = f"hparams_seed {trial['hparams_seed']}, step {trial['step']}"
            yield f"\ttest accuracy {trial['accuracy']}, {chosen}, {trial['folder']}"
            yield from (f"\t\t{name}: {value}" for name, value in sorted(trial["hparams"].items()))
    if not has_cell:
        raise ValueError(
            f"{folder} has no table with {algorithm} on {dataset}, test environment {env}: "
            "python -m regraft.domainbed.collect_results shows what it has."
        )


if __name__ == "__main__":
    main(sys.argv[1:])
