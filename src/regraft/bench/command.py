"""``regraft reproduce``: from names to the library's arguments, and its result in words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from regraft.bench.colored_mnist import ENVIRONMENTS
from regraft.bench.mnist import load_mnist
from regraft.bench.pretraining import PRESETS, Preset
from regraft.bench.progress import Stopwatch
from regraft.bench.published import TRAINING_DOMAIN, Published
from regraft.bench.reproduce import DATA, PARTS, Reproduction, check_arguments, reproduce
from regraft.certificate import Family
from regraft.samples import SurrogateKind
from regraft.screen import Screen

RESUME = "Finished work is kept: run the same command again to go on."
_FULL = (",".join(ENVIRONMENTS), 3, 20)
_QUICK = ("-90%", 1, 3)


def run_reproduce(
    screen: Screen,
    benchmark: str,
    *,
    preset: str,
    cells: str | None,
    trials: int | None,
    configs: int | None,
    quick: bool,
    family: str,
    surrogate: str | None,
    device: str,
    data: Path | None,
    out: Path,
) -> None:
    """Reproduce a benchmark and show the result; None takes the default, ``quick``'s if set."""
    if benchmark != "cmnist":
        raise ValueError(f"benchmark is {benchmark!r}: choose cmnist.")
    default_cells, default_trials, default_configs = _QUICK if quick else _FULL
    chosen = _preset(preset)
    envs = _cells(default_cells if cells is None else cells)
    trials = default_trials if trials is None else trials
    configs = default_configs if configs is None else configs
    check_arguments(envs, trials, configs, family, surrogate, device)
    watch = Stopwatch(*PARTS)
    try:
        with screen.working("reading MNIST") as step:
            with watch.part(DATA):
                images, digits = load_mnist(data)
            result = reproduce(
                images,
                digits,
                preset=chosen,
                out=out,
                cells=envs,
                trials=trials,
                configs=configs,
                family=cast("Family", family),
                surrogate=cast("SurrogateKind | None", surrogate),
                device=device,
                stopwatch=watch,
                on_progress=step,
            )
    except KeyboardInterrupt:
        screen.note(RESUME)
        raise
    show(screen, result)


def _preset(name: str) -> Preset:
    if name not in PRESETS:
        raise ValueError(f"preset is {name!r}: choose {' or '.join(PRESETS)}.")
    return PRESETS[name]


def _cells(text: str) -> list[int]:
    names = [name.strip() for name in text.split(",")]
    if not set(names) <= set(ENVIRONMENTS):
        raise ValueError(f"cells are {text!r}: choose from {','.join(ENVIRONMENTS)}.")
    return [ENVIRONMENTS.index(name) for name in names]


def show(screen: Screen, result: Reproduction) -> None:
    """Our row below the published ones that matter, the spread, the time and the files."""
    cells, average = result.selection.cells, result.selection.average
    ours = [cells[env].mean if env in cells else None for env in range(len(ENVIRONMENTS))]
    row = (result.label, *(_percent(share and 100 * share) for share in (*ours, average)))
    screen.table(("test accuracy (%)", *ENVIRONMENTS, "Avg"), _published(), [row])
    for env, cell in cells.items():
        low, high = cell.spread
        screen.say(
            f"{ENVIRONMENTS[env]}: {100 * low:.1f} to {100 * high:.1f} over all configurations "
            "and trials"
        )
    seconds = ", ".join(f"{part} {spent:.1f} s" for part, spent in result.seconds.items())
    screen.say("", f"Time: {seconds}")
    screen.finish(result.to_dict(), result.files)


def _published() -> list[Sequence[str]]:
    """ERM, the best other algorithm of DomainBed and the paper's own row."""
    by_name = {row.algorithm: row for row in TRAINING_DOMAIN}
    others = [row for row in TRAINING_DOMAIN if row.algorithm not in ("ERM", "CRO")]
    best = max(others, key=lambda row: row.average)
    return [_row(row) for row in (by_name["ERM"], best, by_name["CRO"])]


def _row(row: Published) -> Sequence[str]:
    means = [row.cells[env][0] for env in ENVIRONMENTS]
    return (f"{row.algorithm} ({row.source})", *map(_percent, (*means, row.average)))


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
