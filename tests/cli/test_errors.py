"""What is wrong is told in one sentence, before anything is written."""

import shlex
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.commands import Run
from tests.helpers.problems import Problem
from tests.helpers.small_pictures import write_pacs
from tests.helpers.toy_sweep import write_bank

IMAGES = "reproduce pacs --data {tmp}/pacs"
TRAIN = "train --dataset toy --data {tmp}/bank"
SWEEP = "sweep --datasets toy --algorithms ERM --data {tmp}/bank"
KNOWN = "known dataset (amazon, office-caltech10, pacs)"
SHARE = "pass a share between 0 and 1."
FINITE = "pass a finite number of nats, 0 or more."
ERRORS: list[tuple[str, str]] = [
    ("fit {tmp}/none.csv", "does not exist"),
    ("fit {tmp}/broken.parquet", "damaged or not a Parquet"),
    ("fit {data} --label target", "--label"),
    ("fit {data} --domain place", "--domain"),
    ("fit {data} --label domain", "both 'domain'"),
    ("fit {data} --family hull --radius -1", "radius is -1"),
    ("fit {data} --family hull --rank 5", "rank is 5"),
    ("fit {data} --radius 2", "--radius is a setting of --family hull"),
    ("fit {data} --rank 1", "--rank is a setting of --family hull"),
    ("fit {data} --objective regret", "--objective is a setting of --family hull"),
    ("fit {data} --family hull --prior-shift 1", "--prior-shift is a setting of --family latent"),
    ("fit {data} --family hull --class-groups", "--class-groups is a setting of --family latent"),
    ("fit {data} --family free", "family (--family) is 'free'"),
    ("fit {data} --prior-shift -1", "--prior-shift is -1"),
    ("fit {data} --ridge 0", "ridge is 0"),
    ("fit {data} --family hull --objective luck", "objective is 'luck'"),
    ("fit {data} --device abacus", "device 'abacus'"),
    ("fit {data} --out {tmp}/text.txt", "is a file"),
    ("fit {data} --out {tmp}/text.txt/deeper", "is a file"),
    ("fit {data} --out {tmp}/busy", "thesis.txt"),
    ("predict {tmp} {data}", "not a saved model"),
    ("predict {tmp}/none {data}", "does not exist"),
    ("predict {model} {tmp}/narrow.csv", "lacks 'f1'"),
    ("predict {model} {tmp}/narrow.npz", "2 feature(s)"),
    ("predict {model} {data} --label f0", "lacks 'f0'"),
    ("audit {tmp}/none {data}", "does not exist"),
    ("audit {tmp} {data}", "not a saved model"),
    ("audit {tmp}/narrow.npz {data}", "no array 'probabilities'"),
    ("audit {tmp}/short.csv {data}", "shape"),
    ("audit {model} {data} --radii 1,x", "'1,x'"),
    ("audit {tmp}/strange.csv {data}", "no column 'probability_1'"),
    ("audit {model} {data} --family hull --rank 5", "rank is 5"),
    ("audit {model} {data} --device abacus", "device 'abacus'"),
    ("frontier {data} --family hull --rank 5", "rank is 5"),
    ("frontier {data} --device abacus", "device 'abacus'"),
    ("audit {model} {data} --family hull --radii -1", "radius is -1"),
    ("frontier {data} --radii ,", "radii are ','"),
    ("frontier {data} --family hull --objective luck", "regraft: objective is 'luck'"),
    ("audit {model} {data} --radii 1", "--radii is a setting of --family hull"),
    ("audit {model} {data} --family hull --class-groups", "--class-groups is a setting of"),
    ("audit {model} {data} --family ball", "family (--family) is 'ball'"),
    ("audit {model} {data} --prior-shift -1", "--prior-shift is -1"),
    ("frontier {data} --rank 1", "--rank is a setting of --family hull"),
    ("frontier {data} --prior-shifts 1,x", "prior shifts are '1,x'"),
    ("demo --cell 5", "cell is '5'"),
    ("demo --out {tmp}/text.txt", "is a file"),
    ("demo --seed -1", "seed is -1"),
    ("demo --device abacus", "device 'abacus'"),
    ("reproduce cmnist --seed -1", "seed is -1"),
    ("reproduce pac", "benchmark is 'pac': choose cmnist, pacs or officehome."),
    ("reproduce cmnist --steps 5", "--steps is for images"),
    ("reproduce cmnist --encoder x", "--encoder is for images"),
    ("reproduce cmnist --preset quick", "preset is 'quick'"),
    ("reproduce cmnist --cells +70%", "cells are '+70%'"),
    ("reproduce cmnist --cells ,", "cells are ','"),
    ("reproduce cmnist --trials 0", "trials is 0"),
    ("reproduce cmnist --quick --configs 0", "configs is 0"),
    ("reproduce cmnist --family ball", "family (--family) is 'ball'"),
    ("reproduce cmnist --surrogate luck", "surrogate is 'luck'"),
    ("reproduce cmnist --device abacus", "device 'abacus'"),
    ("reproduce cmnist --data {tmp}", "no train-images-idx3-ubyte"),
    ("reproduce cmnist --out {tmp}/text.txt", "is a file"),
    ("reproduce pacs", "--data is missing: name the folder of PACS's images."),
    ("reproduce pacs --data absent", "there is no folder absent/PACS"),
    (f"{IMAGES} --preset best", "--preset is for cmnist"),
    (f"{IMAGES} --cells A,X", "cells are 'A,X': choose from A,C,P,S."),
    (f"{IMAGES} --steps 0", "steps is 0: pass at least 1."),
    (f"{IMAGES} --size 8", "size is 8: pass at least 32 pixels."),
    (f"{IMAGES} --trials 0", "trials is 0"),
    (f"{IMAGES} --family ball", "family (--family) is 'ball'"),
    (f"{IMAGES} --encoder x", "no image encoder 'x': choose efficientnet_lite0"),
    ("reproduce officehome --data {tmp}/pacs", "OfficeHome has 65 classes but"),
    (f"{TRAIN} --algorithm Erm", "algorithm is 'Erm': choose from ADRMX, ANDMask, ARM,"),
    (f"{TRAIN} --dataset tou", "dataset is 'tou': choose from ColoredMNIST, Debug224, Debug28,"),
    (f"{TRAIN} --dataset PACS", "there is no folder"),
    (f"{TRAIN} --hparams '{{{{lr: 1}}}}'", "pass a JSON object"),
    (f"{TRAIN} --hparams '{{{{\"l\": 1}}}}'", "hparams name 'l', which nothing reads"),
    (f"{TRAIN} --test-envs x", "test-envs are 'x': pass numbers such as 0,1."),
    (f"{TRAIN} --test-envs 0,1,2", "leave one to train on"),
    (f"{TRAIN} --test-envs 3", "toy has 0 (0), 1 (1), 2 (2)."),
    (f"{TRAIN} --steps 0", "steps is 0: pass at least 1."),
    (f"{TRAIN} --holdout-fraction 1", SHARE),
    (f"{TRAIN} --device abacus", "abacus"),
    (f"{TRAIN} --trial-seed -1", "--trial-seed is -1: pass 0 or more."),
    (f"{TRAIN} --seed -1", "seed is -1: pass 0 or more."),
    (f"{SWEEP} --n-trials 0", "regraft: --n-trials is 0: pass at least 1."),
    (f"{SWEEP} --together 0", "regraft: together is 0: pass at least 1."),
    (f"{SWEEP} --seed -1", "regraft: seed is -1: pass 0 or more."),
    (f"{SWEEP} --holdout-fraction 1", f"regraft: --holdout-fraction is 1.0: {SHARE}"),
    (f"{SWEEP} --device abacus", "regraft: device 'abacus' is not available here: pass cpu."),
    (f"{SWEEP} --engine cloud", "regraft: engine is 'cloud': choose from local, ray, slurm."),
    (f"{SWEEP} --test-envs 3", "regraft: --test-envs are [3]: toy has 0 (0), 1 (1), 2 (2)."),
    (
        f"{SWEEP} --datasets ,",
        "regraft: there is nothing to run: name a dataset and algorithms that suit it.",
    ),
    ("collect {tmp}/missing", "is not a folder"),
    ("collect {tmp}/empty", "holds no records"),
    ("collect {tmp}/empty --selection best", "choose from training-domain"),
    ("compare nowhere.csv", f"nowhere.csv does not exist: pass a file, a bank, or a {KNOWN}"),
    ("compare {data} --data {tmp}", f"--data goes with the name of a {KNOWN}, not"),
    ("compare {data} --label target", "has no label column 'target'"),
    ("compare {data} --radii 1,x", "radii are '1,x'"),
    ("compare {data} --radii 1,-1", "radius is -1"),
    ("compare pacs --data {tmp}/nowhere", "does not exist: check --data"),
    (
        "compare pacs",
        "regraft: pacs is a known dataset: say where its files are with --data, or pass the path "
        "of a file or bank.",
    ),
    ("diagnose {tmp}/nowhere.npz", "nowhere.npz does not exist: check the path."),
    ("diagnose {data} --group v", "'v'"),
    ("diagnose {data} --groups 0", "groups is 0: pass a number from 2 to 32."),
    ("adapt {data} {data} --out {tmp}/out --draws " + "9" * 30, ": pass 0 to 10,000."),
    ("diagnose {data} --seed -1", "seed is -1: pass 0 or more."),
    (f"diagnose {{data}} --seed {2**63}", f"seed is {2**63}: pass a number from 0"),
    ("diagnose {data} --device abacus", "device 'abacus' is not available here"),
    ("diagnose {tmp}/same.npz --group u", "group is 1 in every row: pass two groups or more."),
    (
        "diagnose {tmp}/uneven.npz --group u",
        "600 rows of features but a group array of shape (599,)",
    ),
    ("moral run --records 0", "records is 0: pass 1 or more of each panel."),
    ("moral run --records -3", "records is -3: pass 1 or more of each panel."),
    # Before the scenarios are read.
    ("moral run --scenarios {tmp}/none --seed -1", "seed is -1: pass 0 or more."),
    ("moral run --scenarios {tmp}/none --radius -1", f"radius is -1.0: {FINITE}"),
    ("moral run --scenarios {tmp}/none --radius nan", f"radius is nan: {FINITE}"),
    (
        "moral run --scenarios {tmp}/none --model oracle-1",
        "--model chooses among elicited answers: pass their folder with --answers.",
    ),
    (
        "moral run --scenarios {tmp}/none",
        "there is no file {tmp}/none: name a .csv file of scenarios.",
    ),
    (
        "moral run --answers {tmp}/empty",
        "there is no file {tmp}/empty/answers.jsonl: make it with regraft moral elicit.",
    ),
    (
        "moral run --answers {tmp}/none",
        "there is no file {tmp}/none: make it with regraft moral elicit.",
    ),
    ("moral run --encoder efficientnet_lite0", "efficientnet_lite0 encodes images"),
    ("moral run --device abacus", "device 'abacus' is not available here"),
    ("report {tmp}/nowhere", "is not a folder"),
    ("report {tmp}/empty", "holds no results (demo.json, fit.json"),
    ("report {tmp} --out {tmp}", "{tmp} is a folder: name a file with --out"),
    ("diagnose {data} --html", "add --out"),
    (
        "frontier {data} --html",
        "regraft: --html writes report.html into the folder of results: add --out.",
    ),
]


@pytest.fixture(scope="module")
def tmp(tmp_path_factory: pytest.TempPathFactory, problem: Problem) -> Path:
    """A folder of files that have something wrong with them."""
    tmp = tmp_path_factory.mktemp("errors")
    texts = {
        "text.txt": "text",
        "narrow.csv": "f0,label\n1,1\n",
        "short.csv": "p,q\n0.5,0.5\n",
        "strange.csv": "probability_0,probability_2\n0.5,0.5\n",
        "broken.parquet": "PAR1 nothing",
        "busy/model/thesis.txt": "years of work",
    }
    (tmp / "busy" / "model").mkdir(parents=True)
    (tmp / "empty").mkdir()
    for name, text in texts.items():
        (tmp / name).write_text(text)
    np.savez(tmp / "narrow.npz", X=np.ones((3, 2)))
    rows = {"X": problem.X, "y": problem.y}
    np.savez(tmp / "one.npz", **rows, domain=np.zeros(600), u=problem.y)
    np.savez(tmp / "same.npz", **rows, domain=problem.domain, u=np.ones(600, int))
    np.savez(tmp / "uneven.npz", **rows, domain=problem.domain, u=np.ones(599))
    write_bank(tmp / "bank")
    write_pacs(tmp / "pacs", each=2)
    return tmp


@pytest.mark.parametrize(("line", "message"), ERRORS, ids=[line for line, _ in ERRORS])
def test_errors_are_one_sentence_and_leave_nothing_behind(
    tmp: Path, folder: Path, run: Run, line: str, message: str
) -> None:
    names = {"tmp": tmp, "data": folder / "data.csv", "model": folder / "fit"}
    before = sorted(tmp.rglob("*"))
    words = shlex.split(line.format(**names))
    out = () if {"--out", "--html"} & {*words} else ("--out", tmp / "out")
    ran = run(*words, *out)
    assert ran.code == 2
    assert ran.err.startswith("regraft: ") and ran.err.count("\n") == 1
    assert ran.err.endswith(".\n") and message.format(**names) in ran.err
    assert "Traceback" not in ran.out + ran.err
    assert sorted(tmp.rglob("*")) == before


USAGE = {
    "fit": "Missing argument 'data': see regraft fit --help.",
    "fit data.csv": "Missing option '--out': see regraft fit --help.",
    "fit a b --out c": "Got unexpected extra argument(s) (b): see regraft fit --help.",
    "fit data.csv --out": "Option '--out' requires an argument: see regraft fit --help.",
    "fit a --out b --lable c": (
        "No such option: --lable (did you mean --label?): see regraft fit --help."
    ),
    "train --nonsense": "No such option: --nonsense: see regraft train --help.",
    "train --trial-sed 1": (
        "No such option: --trial-sed (did you mean --trial-seed?): see regraft train --help."
    ),
    "audit --radii 1": "Missing argument 'predictor': see regraft audit --help.",
    "demo --json=1": "Option '--json' does not take a value: see regraft demo --help.",
    "reproduce": "Missing argument 'benchmark': see regraft reproduce --help.",
    "nonsense": "No such command 'nonsense': see regraft --help.",
    "dem": "No such command 'dem' (did you mean 'demo'?): see regraft --help.",
    "moral nonsense": "No such command 'nonsense': see regraft moral --help.",
    "--nope": "No such option: --nope: see regraft --help.",
}


@pytest.mark.parametrize("line", USAGE)
def test_usage_errors_are_one_sentence_too(run: Run, line: str) -> None:
    ran = run(*line.split())
    assert (ran.code, ran.out, ran.err) == (2, "", f"regraft: {USAGE[line]}\n")


def test_a_number_that_is_none(run: Run) -> None:
    ran = run("fit", "data.csv", "--out", "o", "--radius", "far")
    assert ran.code == 2 and ran.out == "" and ran.err.count("\n") == 1
    assert ran.err.startswith("regraft: Invalid value for '--radius': ")
    assert ran.err.endswith(": see regraft fit --help.\n")
