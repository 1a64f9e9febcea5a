"""``regraft serve``: a real server and real clients over loopback, well-meaning and hostile."""

import json
import signal
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import Pipeline

from regraft import CROClassifier, ERMClassifier, TableFeatures, export, save
from tests.helpers.commands import hide_packages, run_apart
from tests.helpers.errors import one_sentence
from tests.helpers.mixed_table import features_of, mixed_columns
from tests.helpers.problems import Problem
from tests.helpers.served import Served, serving

httpx = pytest.importorskip("httpx")
pytest.importorskip("uvicorn")
pytestmark = pytest.mark.filterwarnings("ignore:these columns hold values")

MAX_ROWS, MAX_BYTES, TIMEOUT = 200, 100_000, 1.5
COLUMNS = mixed_columns()
TABLE = features_of(COLUMNS)
JSON = {"content-type": "application/json"}
CSV = {"content-type": "text/csv"}


@pytest.fixture(scope="module")
def model() -> Pipeline:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline = Pipeline([("table", TableFeatures()), ("head", CROClassifier())])
        return pipeline.fit(TABLE, COLUMNS["ill"], head__sample_domain=COLUMNS["place"])


@pytest.fixture(scope="module")
def server(model: Pipeline, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("serve")
    export(model, folder / "model.json", to="json")
    options = ("--max-rows", MAX_ROWS, "--max-bytes", MAX_BYTES, "--timeout", TIMEOUT)
    with serving(folder, folder / "model.json", *options) as served:
        yield served
    assert served.process.returncode == 0 and served.log.read_text().count("Traceback") == 0


@pytest.fixture(scope="module")
def client(server: Served) -> Iterator[Any]:
    with httpx.Client(base_url=server.url, timeout=20) as client:
        yield client


def rows_of(n: int, first: int = 0) -> list[dict[str, Any]]:
    chosen = slice(first, first + n)
    cells = zip(*(column[chosen].tolist() for column in TABLE.values()), strict=True)
    return [dict(zip(TABLE, row, strict=True)) for row in cells]


def refusal(response: Any, status: int) -> str:
    """Check that an answer is a refusal in one sentence, and return it."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    document = response.json()
    assert document.keys() == {"error"} and "Traceback" not in response.text
    return one_sentence(document["error"])


def test_rows_by_name_in_order_and_as_csv_are_answered(client: Any, model: Pipeline) -> None:
    rows = rows_of(100)
    own = model.predict_proba({name: column[:100] for name, column in TABLE.items()})
    answer = client.post("/predict", json={"rows": rows}).json()
    assert answer["classes"] == ["no", "yes"]
    np.testing.assert_allclose(answer["probabilities"], own, atol=1e-6, rtol=0)
    assert answer["labels"] == [answer["classes"][k] for k in own.argmax(axis=1)]
    assert answer["ignored"] == ["patient", "units"] and answer["warnings"] == []
    columns = [column["name"] for column in client.get("/card").json()["columns"]]
    in_order = [[row[name] for name in columns] for row in rows]
    plain = client.post("/predict", json=in_order).json()
    assert "ignored" not in plain and plain["probabilities"] == answer["probabilities"]
    strange = [row | {"stage": "final", "visits": 3} for row in rows[:2]]
    assert client.post("/predict", json=strange + rows[:1]).status_code == 200
    assert client.post("/predict", json=strange).json()["warnings"] == [
        "columns that the model does not know are not read: 'visits'.",
        "these columns hold values or gaps that did not occur in fit and count for nothing: "
        "'stage' (2 rows).",
    ]
    lines = [",".join(TABLE), *(",".join(row.values()) for row in rows)]
    table = client.post("/predict", content="\r\n".join(lines), headers=CSV).json()
    assert table == answer
    for separator, decimal in ((";", ","), ("\t", "."), (" , ", ".")):
        lines = [separator.join(TABLE)]
        lines += [
            separator.join(
                value.replace(".", decimal) if name in ("age", "dose") else value
                for name, value in row.items()
            )
            for row in rows
        ]
        body = "\n".join(lines).replace(" , ", ", ")
        assert client.post("/predict", content=body, headers=CSV).json() == answer
    typed = [
        {"age": 51.5, "dose": None, "stage": None, "smoker": True},
        {"age": "51.5", "dose": "NA", "stage": "?", "smoker": "TRUE"},
    ]
    both = client.post("/predict", json=typed).json()["probabilities"]
    assert both[0] == both[1]


def test_health_and_card(client: Any, model: Pipeline) -> None:
    assert client.get("/health").json() == {"status": "ok", "interval": False}
    assert client.head("/health").status_code == 200
    card = client.get("/card").json()
    certificate = model[-1].certificate_
    assert card["summary"] == list(certificate.paragraphs())
    assert card["certificate"] == json.loads(certificate.to_json())
    assert card["model"] == "CROClassifier" and card["sources"] == ["clinic 0", "clinic 1"]
    text = client.get("/card", headers={"accept": "text/markdown"})
    assert text.headers["content-type"].startswith("text/markdown") and text.text == card["card"]
    page = client.get("/card", headers={"accept": "text/html,*/*"})
    assert page.headers["content-type"].startswith("text/html") and "<pre>" in page.text
    assert page.headers["content-security-policy"] == "default-src 'none'"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"\x00" * 100, "not JSON"),
        (b"[" * 50_000, "not JSON"),
        (b'{"rows":' * 9_000 + b"1" + b"}" * 9_000, "not JSON"),
        (b"[" + b"9" * 90_000 + b"]", "not JSON"),
        (b"1", "must be a list of rows"),
        (b'"rows"', "must be a list of rows"),
        (b'{"rows": {"age": 1}}', "must be a list of rows"),
        (b'{"row": []}', "must be a list of rows"),
        (b'{"rows": [], "path": "/etc/passwd"}', "no option 'path'"),
        (b'{"rows": [[1]], "interval": 1}', "true or false"),
        (b'{"rows": [[1, 2, "low", 1]], "interval": true}', "start it with --interval"),
        (b"[]", "there are no rows"),
        (b"[1, 2]", "must all be objects"),
        (b"[null]", "must all be objects"),
        (b"[[1, 2, 3, 4], {}]", "must all be objects"),
        (b"[[1, 2]]", "row 1 has 2 values, but the model reads 4"),
        (b"[{}]", "the rows lack 'age', 'dose', 'stage', 'smoker'"),
        (b'[{"age":1,"dose":1,"stage":"low"}]', "the rows lack 'smoker'"),
        (b'[{"age":1,"dose":1,"stage":"low","smoker":1},{"age":1}]', "row 2 has no 'dose'"),
        (b"[[1, NaN, 3, 4]]", "NaN is no JSON"),
        (b"[[1, -Infinity, 3, 4]]", "-Infinity is no JSON"),
        (b"[[1e999, 2, 1, 4]]", "column 'age' holds an infinite number"),
        (b"[[" + b"9" * 400 + b", 2, 1, 4]]", "column 'age' holds an infinite number"),
        (b"[[1, 2, null, 1.7e308]]", "column 'smoker' holds a number beyond 1e+100"),
        (b'[["old", 2, 1, 4]]', "column 'age' holds numbers for the model, but not in row 1"),
        (b"[[[1], 2, 1, 4]]", "a list or an object in 'age'"),
        (b'[[1, 2, {"a": 1}, 1]]', "a list or an object in 'stage'"),
        (
            b'[{"age":1,"dose":1,"stage":"low","smoker":1,'
            + b",".join(b'"c%d":0' % i for i in range(2000))
            + b"}]",
            "have 2,004 columns",
        ),
    ],
    ids=lambda value: value[:20].decode("latin-1") if isinstance(value, bytes) else None,
)
def test_hostile_json_is_refused_in_one_sentence(client: Any, body: bytes, words: str) -> None:
    assert words in refusal(client.post("/predict", content=body, headers=JSON), 400)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("", "no rows"),
        ("age,dose\n", "no rows"),
        ("age,age\n1,2\n", "two columns of the table have one name"),
        ("age,dose\n1\n", "line 2 has 1 values for 2 columns"),
        ('age,dose\n"1\n', "not a CSV table"),
        ("age,dose\n1,2\n", "the rows lack 'stage', 'smoker'"),
    ],
)
def test_hostile_csv_is_refused_in_one_sentence(client: Any, body: str, words: str) -> None:
    assert words in refusal(client.post("/predict", content=body, headers=CSV), 400)


def test_paths_methods_and_types(client: Any) -> None:
    for path in ("/", "/nothing", "/predict/..%2f..%2fetc/passwd", "/card/x"):
        assert "use /predict, /health and /card" in refusal(client.get(path), 404)
    for method, path in (("GET", "/predict"), ("DELETE", "/predict"), ("POST", "/card")):
        assert f"does not take {method}" in refusal(client.request(method, path), 405)
    body = json.dumps(rows_of(1))
    for headers in (
        {},
        {"content-type": "text/plain"},
        {"content-type": "multipart/form-data"},
        JSON | {"content-encoding": "gzip"},
    ):
        response = client.post("/predict", content=body.encode(), headers=headers)
        assert "application/json or text/csv" in refusal(response, 415)


def test_too_much_is_refused(client: Any) -> None:
    rows = [[1.0, 2.0, "low", 1]] * MAX_ROWS
    assert len(client.post("/predict", json=rows).json()["labels"]) == MAX_ROWS
    assert "201 rows" in refusal(client.post("/predict", json=[*rows, rows[0]]), 413)
    large = b" " * (50 * MAX_BYTES)
    words = refusal(client.post("/predict", content=large, headers=JSON), 413)
    assert "more than 100,000 bytes" in words
    chunked = client.post("/predict", content=iter([large] * 3), headers=JSON)
    assert "more than 100,000 bytes" in refusal(chunked, 413)
    lines = "age,dose\n" + "1,2\n" * (MAX_ROWS + 5)
    assert "201 rows" in refusal(client.post("/predict", content=lines, headers=CSV), 413)
    assert client.get("/health").status_code == 200


def talk(server: Served, *parts: bytes, pause: float = 0.0) -> bytes:
    """Write bytes to the server, and return all that it answers until it closes."""
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as line:
        for part in parts:
            line.sendall(part)
            time.sleep(pause)
        answer = b""
        with suppress(ConnectionResetError):  # it may close while there is something to read
            while received := line.recv(65536):
                answer += received
    return answer


HEAD = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def test_what_is_no_http_is_refused(server: Served) -> None:
    for bad in (
        b"\x16\x03\x01 hello\r\n\r\n",
        HEAD + b"Content-Length: -5\r\n\r\n",
        HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n12345",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    ):
        answer = talk(server, bad)
        assert answer.startswith(b"HTTP/1.1 400 ") and b'{"error":' in answer, bad[:80]
    long = talk(server, b"GET /health HTTP/1.1\r\nX: " + b"a" * 200_000 + b"\r\n\r\n")
    assert not long or long.startswith(b"HTTP/1.1 400 ")
    asked = HEAD + b"Expect: 100-continue\r\nContent-Length: 999999999\r\n\r\n"
    assert talk(server, asked).startswith(b"HTTP/1.1 413 ")


def test_slow_clients_are_cut_off_while_others_are_answered(server: Served, client: Any) -> None:
    """A head, a body and chunks that never end; all three wait at the same time."""
    endless = b"HTTP"  # the first line of a request that is never finished
    with ThreadPoolExecutor(4) as pool:
        head = pool.submit(talk, server, endless)
        body = pool.submit(talk, server, HEAD + b"Content-Length: 100\r\n\r\n[[1")
        chunks = [HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[b"1\r\n \r\n"] * 6]
        drip = pool.submit(talk, server, *chunks, pause=TIMEOUT / 6)
        time.sleep(TIMEOUT / 5)
        assert client.get("/health").status_code == 200
        assert client.post("/predict", json=rows_of(5)).status_code == 200
        assert head.result() == b""
        for answer in (body.result(), drip.result()):
            assert answer.startswith(b"HTTP/1.1 408 ") and b"too long to arrive" in answer


def test_clients_that_leave_do_no_harm(server: Served, client: Any) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    for part in (b"", HEAD, HEAD + b"Content-Length: 50\r\n\r\n[[1, 2"):
        with socket.create_connection((host, int(port))) as line:
            line.sendall(part)
    assert client.get("/health").status_code == 200


def test_many_clients_at_once_get_their_own_answers(
    server: Served, client: Any, model: Pipeline
) -> None:
    own = model.predict_proba(TABLE)
    failures: list[str] = []

    def ask(first: int) -> None:
        with httpx.Client(base_url=server.url, timeout=20) as each:
            for turn in range(10):
                start = (first * 10 + turn * 7) % 250
                found = each.post("/predict", json=rows_of(50, start)).json()["probabilities"]
                if not np.allclose(found, own[start : start + 50], atol=1e-6, rtol=0):
                    failures.append(f"rows from {start}")

    threads = [threading.Thread(target=ask, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.slow
def test_a_folder_is_served_with_intervals(problem: Problem, tmp_path: Path) -> None:
    model = CROClassifier("hull", radius=0.2).fit(*problem.data)
    save(model, tmp_path / "run" / "model")
    rows = problem.X[:20]
    expected = model.predict_interval(rows)
    with (
        serving(tmp_path, tmp_path / "run", "--interval") as served,
        httpx.Client(base_url=served.url, timeout=20) as each,
    ):
        assert each.get("/health").json()["interval"] is True
        answer = each.post("/predict", json={"rows": rows.tolist(), "interval": True}).json()
        np.testing.assert_allclose(answer["least"], expected.lower, atol=1e-9)
        np.testing.assert_allclose(answer["largest"], expected.upper, atol=1e-9)
        assert answer["decided"] == expected.decided.tolist()
        wrong = each.post("/predict", json=[[None, *rows[0, 1:]]])
        assert "row 1 has no value in 'x0'" in refusal(wrong, 400)


def test_two_workers_answer(problem: Problem, tmp_path: Path) -> None:
    model = ERMClassifier().fit(*problem.data)
    export(model, tmp_path / "model.json", to="json")
    patient = httpx.HTTPTransport(retries=9)
    with (
        serving(tmp_path, tmp_path / "model.json", "--workers", 2) as served,
        httpx.Client(base_url=served.url, timeout=20, transport=patient) as each,
    ):
        answer = each.post("/predict", json=problem.X[:5].tolist()).json()
        own = model.predict_proba(problem.X[:5])
        np.testing.assert_allclose(answer["probabilities"], own, atol=1e-6, rtol=0)
        assert served.stop() == 0


def test_a_request_is_finished_when_the_server_is_told_to_stop(
    model: Pipeline, tmp_path: Path
) -> None:
    export(model, tmp_path / "model.json", to="json")
    with serving(tmp_path, tmp_path / "model.json") as served:
        body = json.dumps(rows_of(5)).encode()
        begin = HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode()
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(talk, served, begin + body[:10], body[10:], pause=0.5)
            time.sleep(0.2)
            served.process.send_signal(signal.SIGTERM)
            assert answer.result().startswith(b"HTTP/1.1 200 ")
        assert served.process.wait(timeout=30) == 0


def test_torch_is_not_loaded_to_serve() -> None:
    code = (
        "import sys; sys.modules['torch'] = sys.modules['sklearn'] = None\n"
        "import regraft.cli.server, regraft.cli.serve"
    )
    assert run_apart(code=code).code == 0


def test_what_cannot_be_served_is_one_sentence(problem: Problem, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        export(ERMClassifier().fit(*problem.data), tmp_path / "m.json", to="json")
        port = taken.getsockname()[1]
        ran = run_apart("serve", tmp_path / "m.json", "--port", port)
        assert ran.code == 2 and f"port {port} of 127.0.0.1 cannot be used" in ran.err
    for words, said in (
        (("serve", tmp_path), "is not a saved model"),
        (("serve", tmp_path / "m.json", "--interval", "--port", 0), "without --interval"),
        (("serve", tmp_path / "m.json", "--port", 99999), "cannot be used"),
    ):
        ran = run_apart(*words)
        assert ran.code == 2 and said in ran.err.splitlines()[-1], ran
    hidden = hide_packages(tmp_path / "hidden", "uvicorn")
    ran = run_apart("serve", tmp_path / "m.json", path=[hidden])
    assert ran.err == 'regraft: uvicorn is not installed: run pip install "regraft[serve]".\n'
