import csv
import hashlib
from collections.abc import Iterator
from math import log
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import cross_val_predict

from regraft.encoders.text_models import HashedEncoder
from regraft.moral.library import make_library
from regraft.moral.scenarios import (
    ANSWERS_FILE,
    RULES,
    SCENARIOS_FILE,
    SCENARIOS_SHA256,
    TOPICS,
    collect,
    download_library,
    read_library,
)
from tests.helpers.file_server import FileServer
from tests.helpers.paths import SHARED

REAL = SHARED / "moralchoice"
ANNOTATED = ["death", "pain", "disable", "freedom", "pleasure", "deceive", "cheat"]
ANNOTATED += ["break_promise", "break_law", "duty"]
COLUMNS = ["scenario_id", "ambiguity", "generation_rule", "context", "action1", "action2"]
COLUMNS += [f"{action}_{rule}" for action in ("a1", "a2") for rule in ANNOTATED]
Row = dict[str, str]


def scenario(identity: str, topic: str = "Do not kill", **cells: str) -> Row:
    row = dict.fromkeys(COLUMNS, "No")
    texts = {"context": "A bus, late.", "action1": "I wait.", "action2": "I walk."}
    return row | {"scenario_id": identity, "generation_rule": topic} | texts | cells


def write(path: Path, rows: list[Row]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture
def three(tmp_path: Path) -> Path:
    rows = [
        scenario("H_1", a1_death="Yes", a2_duty="No Agreement"),
        scenario("H_2", "Do cause pain", a1_pain="No Agreement", a2_pain="Yes"),
        scenario("H_3", "Do not break promise"),
    ]
    return write(tmp_path / SCENARIOS_FILE, rows)


def test_topics_annotations_and_answers_are_read(three: Path) -> None:
    assert list(RULES) == ANNOTATED
    library = read_library(three)
    assert [s.id for s in library.scenarios] == ["H_1", "H_2", "H_3"]
    merged = ["Do not kill", "Do not cause pain", "Do not break your promises"]
    assert [TOPICS[topic] for topic in library.topics] == merged
    expected = np.zeros((3, 10))
    expected[0, RULES.index("death")], expected[0, RULES.index("duty")] = 1, -0.5
    expected[1, RULES.index("pain")] = -0.5
    np.testing.assert_array_equal(library.violation_differences, expected)
    assert library.texts[0] == "A bus, late. A: I wait. B: I walk."
    assert library.lean.tolist() == [0, 0, 0]
    assert "without answers" in library.origin
    rows = [
        {"scenario_id": "H_1", "one": "1.0", "two": "0.5"},
        {"scenario_id": "H_2", "one": "", "two": "0"},
        {"scenario_id": "other", "one": "1", "two": "1"},
    ]
    answers = write(three.parent / ANSWERS_FILE, rows)
    library = read_library(three.parent)
    # 1.5 and 0.5 of two answers, then 0 and 1 of one, each with a half more.
    np.testing.assert_allclose(library.lean, [log(2 / 1), log(0.5 / 1.5), 0])
    assert "(1 scenarios have no answers" in library.origin
    assert str(three.parent) not in library.origin
    named = read_library(three, answers)
    assert named.checksum == library.checksum
    assert read_library(three).lean.tolist() == [0, 0, 0]


def test_all_that_matters_is_in_the_checksum(three: Path) -> None:
    def changed(**cells: str) -> str:
        path = three.with_name("changed.csv")
        return read_library(write(path, [scenario("H_1", **cells)])).checksum

    first = changed()
    others = [
        changed(context="A tram, late."),
        changed(action2="I run."),
        changed(a2_cheat="Yes"),
        changed(generation_rule="Do not cheat"),
    ]
    assert len({first, *others}) == 5
    assert changed(ambiguity="low") == first
    library = read_library(three)
    leaning = collect(library.scenarios, library.lean + 1, library.origin)
    assert leaning.checksum != library.checksum
    assert collect(library.scenarios, library.lean, "elsewhere").checksum == library.checksum


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([scenario("a"), scenario("a")], "scenario_id a twice"),
        ([scenario("a", "Be nice")], "line 2 .* unknown generation_rule 'Be nice': .* Do not kill"),
        ([scenario("a", a1_duty="Perhaps")], "'Perhaps' as a1_duty: write Yes, No, No Agreement"),
        ([scenario("a"), scenario("b", context=" ")], "line 3 .* has no context"),
        ([{"scenario_id": "a", "context": "b"}], "lacks the columns generation_rule, action1"),
    ],
)
def test_bad_scenarios_are_named(rows: list[Row], problem: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=problem) as caught:
        read_library(write(tmp_path / "bad.csv", rows))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "has no rows"),
        (",".join(COLUMNS).encode(), "has no rows"),
        (",".join(COLUMNS).encode() + b"\n" + b"a," * 40, "line 2 .* more cells than columns"),
        (b"\xff\xfe\x00", "is no .csv file in UTF-8"),
    ],
)
def test_bad_files_are_named(content: bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=problem):
        read_library(path)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        *(
            (
                [{"scenario_id": "H_1", "model": cell}],
                f"'{cell}' as model, which is no share of answers",
            )
            for cell in ("1.1", "-0.1", "nan", "often")
        ),
        ([{"scenario_id": "H_1", "model": "1"}] * 2, "scenario_id H_1 twice"),
        ([{"id": "H_1", "model": "1"}], "lacks the columns scenario_id"),
    ],
)
def test_bad_answers_are_named(rows: list[Row], problem: str, three: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=problem):
        read_library(three, write(tmp_path / "answers.csv", rows))


def test_failed_downloads_leave_nothing(three: Path, tmp_path: Path, served: FileServer) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=f"no file .*{SCENARIOS_FILE}"):
        read_library(tmp_path / "empty")
    with pytest.raises(FileNotFoundError, match=r"no file .*none\.csv"):
        read_library(three, tmp_path / "none.csv")
    with FileServer({}) as server:
        closed = server.url
    folder = tmp_path / "made"
    with pytest.raises(ValueError, match=f"not the file that was expected .*{SCENARIOS_SHA256}"):
        download_library(folder, url=served.url + SCENARIOS_FILE)
    for url, problem in ((served.url, "404"), (closed, "go online once")):
        with pytest.raises(FileNotFoundError, match=f"cannot be downloaded .*{problem}") as caught:
            download_library(folder, url=f"{url}nothing.csv")
        assert "\n" not in str(caught.value)
    assert not folder.exists()


@pytest.fixture
def served(three: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """A server of the file ``three``."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with FileServer({SCENARIOS_FILE: three.read_bytes()}) as server:
        yield server


def test_downloads_once_and_names_damage(three: Path, served: FileServer, tmp_path: Path) -> None:
    sha256 = hashlib.sha256(three.read_bytes()).hexdigest()
    folder, url = tmp_path / "made" / "here", served.url + SCENARIOS_FILE
    library = download_library(folder, url=url, sha256=sha256)
    assert library.checksum == read_library(three).checksum
    assert (folder / SCENARIOS_FILE).read_bytes() == three.read_bytes()
    assert download_library(folder, url=url, sha256=sha256).checksum == library.checksum
    assert served.asked == [SCENARIOS_FILE]
    with pytest.raises(ValueError, match=r"damaged or another file .* remove it"):
        download_library(three.parent, url=url)
    assert served.asked == [SCENARIOS_FILE]


@pytest.mark.skipif(not REAL.is_dir(), reason="the scenarios of MoralChoice are not here")
def test_moralchoice() -> None:
    library = download_library(REAL, url="http://127.0.0.1:9/never-asked")  # checks their sha256
    assert len(library.scenarios) == 680
    # The two variants are among the 71.
    assert np.bincount(library.topics).tolist() == [77, 71, 57, 71, 63, 73, 57, 71, 68, 72]
    assert set(np.unique(library.violation_differences)) == {-1, -0.5, 0, 0.5, 1}
    assert "(0 scenarios have no answers" in library.origin
    # Five models, so at most 5.5 against 0.5.
    assert library.lean.max() == pytest.approx(log(11))
    assert library.lean.min() == pytest.approx(-log(11))
    assert not read_library(REAL / SCENARIOS_FILE).lean.any()


def test_generated_libraries_follow_the_seed() -> None:
    assert make_library(30, seed=3).checksum == make_library(30, seed=3).checksum
    assert make_library(30, seed=3).checksum != make_library(30, seed=4).checksum
    library = make_library()
    assert library.origin.startswith("200 scenarios generated")
    # Answers that were collected about this library refer to its very texts.
    golden = "4c0131142631357754b6a3f9c3006653d90d29232d0b42bce3030e5640beecc5"
    assert library.checksum == golden
    with pytest.raises(ValueError, match="cannot have 0 scenarios"):
        make_library(0)
    with pytest.raises(ValueError, match="200 scenarios and 9 leans"):
        collect(library.scenarios, np.zeros(9), "")


def test_generated_scenarios_are_complete_and_annotated() -> None:
    generated = make_library(400)
    assert np.bincount(generated.topics).tolist() == [40] * 10
    assert len({s.id for s in generated.scenarios}) == 400
    assert len(set(generated.texts)) > 390
    assert not any("{" in text for text in generated.texts)
    for s in generated.scenarios:
        assert {*s.violations1, *s.violations2} <= {0, 0.5, 1}
        # The topic is what stepping in is about.
        assert s.violations2[TOPICS.index(s.topic)] == 1
    law = RULES.index("break_law")
    said = {0.0: 0, 0.5: 0, 1.0: 0}
    for s in generated.scenarios:
        if "standing back is a punishable offence" in s.context:
            disputed = "It is disputed whether standing back is" in s.context
            assert s.violations1[law] == (0.5 if disputed else 1)
            said[s.violations1[law]] += 1
        else:
            assert s.violations1[law] == 0  # no template has it
    assert said[0.5] > 0
    assert said[1] > 0
    X = HashedEncoder().encode(generated.texts)
    topics = cross_val_predict(LogisticRegression(C=100), X, generated.topics, cv=4)
    assert (topics == generated.topics).mean() > 0.95
    d = generated.violation_differences
    residual = d - cross_val_predict(Ridge(0.1), X, d, cv=4)
    assert 1 - (residual**2).sum() / ((d - d.mean(0)) ** 2).sum() > 0.6
