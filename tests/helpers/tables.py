"""The same columns in every format of tables."""

import csv
import gzip
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


def write_columns(path: Path, columns: Mapping[str, Any], delimiter: str = ",") -> Path:
    """Write the format that the name tells: .npz, .parquet, .csv, .tsv or .jsonl (also .gz)."""
    if path.suffix == ".npz":
        np.savez(path, **columns)
        return path
    if path.suffix == ".parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.table(columns), path)
        return path
    rows = zip(*(np.asarray(column, object).tolist() for column in columns.values()), strict=True)
    text = io.StringIO(newline="")
    if ".csv" in path.name or ".tsv" in path.name:
        csv.writer(text, delimiter=delimiter).writerows([columns, *rows])
    else:
        text.writelines(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows)
    content = text.getvalue().encode()
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return path
