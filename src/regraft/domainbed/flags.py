"""DomainBed's flags, underscores and lists included, as the arguments of our commands."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from regraft.cli.failures import PROGRAM
from regraft.cli.names import ALGORITHMS, DATASETS, DRAWN_DATASETS
from regraft.cli.options import one_of

_LAUNCHERS = {
    "local": ["--engine", "local", "--workers", "1"],
    "multi_gpu": ["--engine", "local"],
    "dummy": ["--dry-run"],
    "ray": ["--engine", "ray"],
    "slurm": ["--engine", "slurm"],
}
_OURS_BY_SCRIPT = {  # our commands, and options that DomainBed does not have
    "train": ("train", "--plugins, --compat or --swad"),
    "sweep": ("sweep", "--plugins, --compat, --swad or --workers"),
    "collect_results": ("collect", "--selection, --markdown or --json"),
    "download": ("download", "a dataset's name and --from"),
}
_OURS = ("CRO", "CROLatent", "JTT", "EIIL", "XRM")


def train_arguments(given: Sequence[str], device: str) -> list[str]:
    """Return the arguments of ``regraft train`` for those of DomainBed's ``train``.

    What DomainBed does not know is passed on.
    """
    parser = _parser("train")
    _add_shared(parser)
    parser.add_argument("--dataset", default="RotatedMNIST", help="Its name.")
    parser.add_argument("--algorithm", default="ERM", help="Its name.")
    parser.add_argument(
        "--hparams_seed", type=int, default=0, help="Configuration; 0 is the default one."
    )
    parser.add_argument("--trial_seed", type=int, default=0, help="Trial: splits of the data.")
    parser.add_argument("--seed", type=int, default=0, help="Of weights, minibatches, colours.")
    parser.add_argument("--checkpoint_freq", type=int, help="Steps between evaluations.")
    parser.add_argument(
        "--test_envs", type=int, nargs="+", default=[0], help="Held-out domains by number: 0 1."
    )
    parser.add_argument("--output_dir", default="train_output", help="Folder for the files.")
    parser.add_argument("--skip_model_save", action="store_true", help="Keep the records only.")
    parser.add_argument(
        "--save_model_every_checkpoint",
        action="store_true",
        help="Keep the model of every evaluation as well.",
    )
    args, rest = parser.parse_known_args(given)
    return [
        "train",
        *("--dataset", args.dataset, "--algorithm", args.algorithm),
        *("--hparams-seed", str(args.hparams_seed), "--trial-seed", str(args.trial_seed)),
        *("--seed", str(args.seed), "--test-envs", ",".join(map(str, args.test_envs))),
        *_number("checkpoint_freq", args.checkpoint_freq),
        *(["--skip-model-save"] if args.skip_model_save else []),
        *(["--save-model-every-checkpoint"] if args.save_model_every_checkpoint else []),
        *_shared_arguments(args, rest, device),
    ]


def sweep_arguments(given: Sequence[str], device: str) -> list[str] | None:
    """Return the arguments of ``regraft sweep`` for those of DomainBed's ``sweep``.

    None for ``delete_incomplete``, which nothing needs: unfinished runs go on.
    """
    parser = _parser("sweep")
    parser.add_argument(
        "command",
        choices=["launch", "delete_incomplete"],
        help="What to do; nothing needs deleting here, since unfinished runs go on.",
    )
    _add_shared(parser)
    from_files = [name for name in DATASETS if name not in DRAWN_DATASETS]
    parser.add_argument(
        "--datasets",
        nargs="+",
        default=from_files,
        help="Names. Default: all of DomainBed's but the two of noise.",
    )
    domainbeds = [name for name in ALGORITHMS if name not in _OURS]
    parser.add_argument(
        "--algorithms", nargs="+", default=domainbeds, help="Names. Default: all of DomainBed's."
    )
    parser.add_argument(
        "--n_hparams_from",
        type=int,
        default=0,
        help="How many of these to leave out, from the default one on.",
    )
    parser.add_argument(
        "--n_hparams",
        type=int,
        default=20,
        help="Configurations, counted from the default one on.",
    )
    parser.add_argument("--n_trials", type=int, default=3, help="Repetitions of everything.")
    parser.add_argument("--output_dir", required=True, help="Folder for the runs.")
    parser.add_argument("--command_launcher", default="local", help=f"{one_of(*_LAUNCHERS)}.")
    parser.add_argument(
        "--single_test_envs", action="store_true", help="Do not hold out every two domains as well."
    )
    parser.add_argument(
        "--skip_confirmation", action="store_true", help="Taken, but nothing is asked here."
    )
    parser.add_argument("--seed", type=int, default=0, help="Taken, but not used, as in DomainBed.")
    args, rest = parser.parse_known_args(given)
    if args.command == "delete_incomplete":
        return None
    if args.command_launcher not in _LAUNCHERS:
        raise ValueError(
            f"command_launcher is {args.command_launcher!r}: choose from {', '.join(_LAUNCHERS)}; "
            "in place of one of your own for a cluster take slurm or ray."
        )
    return [
        "sweep",
        *("--datasets", ",".join(args.datasets), "--algorithms", ",".join(args.algorithms)),
        *("--n-hparams-from", str(args.n_hparams_from), "--n-hparams", str(args.n_hparams)),
        *("--n-trials", str(args.n_trials)),
        *([] if args.single_test_envs else ["--pairs"]),
        *_LAUNCHERS[args.command_launcher],
        *_shared_arguments(args, rest, device),
    ]


def collect_arguments(given: Sequence[str]) -> list[str]:
    """Return the arguments of ``regraft collect`` for those of DomainBed's ``collect_results``.

    Raises ``ValueError`` with one sentence for what is not done here.
    """
    parser = _parser("collect_results")
    parser.add_argument("--input_dir", required=True, help="Folder of the runs.")
    parser.add_argument("--latex", action="store_true", help="Print LaTeX.")
    _add_auto_lr(parser)
    args, rest = parser.parse_known_args(given)
    _refuse_auto_lr(args)
    return ["collect", args.input_dir, "--compat", *(["--latex"] if args.latex else []), *rest]


def download_arguments(given: Sequence[str]) -> list[str]:
    """Return the arguments of ``regraft download`` for those of DomainBed's ``download``.

    Alone they list the datasets, where people get them, and the folders that they belong in.
    """
    parser = _parser("download")
    parser.add_argument("--data_dir", required=True, help="Folder of the data.")
    args, rest = parser.parse_known_args(given)
    return ["download", *rest, "--data", args.data_dir]


def _number(name: str, value: int | None) -> list[str]:
    """Return an option that is a number of steps; 0 is left out as DomainBed does, and said."""
    if value == 0:
        print(
            f"{PROGRAM}: --{name} 0 is left out, as DomainBed does: the dataset's own is used.",
            file=sys.stderr,
        )
    return [f"--{name.replace('_', '-')}", str(value)] if value else []


def _parser(name: str) -> argparse.ArgumentParser:
    ours, examples = _OURS_BY_SCRIPT[name]
    return argparse.ArgumentParser(
        prog=f"python -m regraft.domainbed.{name}",
        description=f"DomainBed's {name}, done by regraft {ours}.",
        epilog=f"Options of regraft {ours} are taken as well, such as {examples}.",
    )


def _add_auto_lr(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--auto_lr", action="store_true", help="Refused: not done here.")


def _refuse_auto_lr(args: argparse.Namespace) -> None:
    if args.auto_lr:
        raise ValueError("ERM++ has no search for a learning rate here: leave --auto_lr out.")


def _add_shared(parser: argparse.ArgumentParser) -> None:
    # Flags may be cut short, but --data could also be the beginning of --dataset.
    parser.add_argument("--data_dir", "--data", help="Folder of the data.")
    parser.add_argument(
        "--task", default="domain_generalization", help="That, or domain_adaptation."
    )
    parser.add_argument(
        "--uda_holdout_fraction",
        type=float,
        default=0.0,
        help="Share of the held-out domains' rows without labels, to adapt to.",
    )
    parser.add_argument("--hparams", help="Hyperparameters to set, as a JSON object.")
    _add_auto_lr(parser)
    parser.add_argument("--steps", type=int, help="Default: the dataset's.")
    parser.add_argument(
        "--holdout_fraction",
        type=float,
        default=0.2,
        help="Share of each domain kept for validation.",
    )
    parser.add_argument("--device", help="Default: cuda where there is a GPU, else cpu.")


def _shared_arguments(args: argparse.Namespace, rest: list[str], device: str) -> list[str]:
    _refuse_auto_lr(args)
    unlabelled = args.uda_holdout_fraction
    return [
        *(["--task", args.task] if args.task != "domain_generalization" else []),
        *(["--uda-holdout-fraction", str(unlabelled)] if unlabelled else []),
        *(["--data", args.data_dir] if args.data_dir else []),
        *(["--hparams", args.hparams] if args.hparams else []),
        *_number("steps", args.steps),
        *("--holdout-fraction", str(args.holdout_fraction), "--out", args.output_dir),
        *("--device", args.device or device),
        *rest,
    ]
