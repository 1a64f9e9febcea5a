"""Turn DomainBed's ``model.pkl`` into a safetensors file and a JSON file beside it.

    python export_model.py train_output/model.pkl [converted.safetensors]

This file stands alone. Copy it into DomainBed's own environment and run it there: it needs Python
3.7 and torch, and imports nothing else. It unpickles the file, which executes what is in it, so
give it only files that you trust. regraft itself never unpickles; it reads the two files.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TYPES = {
    "torch.float64": "F64",
    "torch.float32": "F32",
    "torch.float16": "F16",
    "torch.int64": "I64",
    "torch.int32": "I32",
    "torch.int16": "I16",
    "torch.int8": "I8",
    "torch.uint8": "U8",
    "torch.bool": "BOOL",
}
FORMAT = "domainbed"
USAGE = "usage: python export_model.py model.pkl [converted.safetensors]"


def plain(value: Any) -> Any:
    """Return ``value`` in JSON's types: numbers of NumPy become Python's, paths become text."""
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, (str, int, float)) or value is None:
        return value
    return value.item() if hasattr(value, "item") else str(value)


def write_safetensors(path: Path, tensors: dict[str, Any]) -> None:
    """Write tensors in the format of safetensors: length of the header, header, bytes."""
    header: dict[str, Any] = {"__metadata__": {"format": FORMAT}}
    parts, position = [], 0
    for name, tensor in sorted(tensors.items()):
        content = tensor.detach().cpu().contiguous()
        data = content.numpy().tobytes()
        header[name] = {
            "dtype": TYPES[str(content.dtype)],
            "shape": list(content.shape),
            "data_offsets": [position, position + len(data)],
        }
        parts.append(data)
        position += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))


def load(source: Path) -> dict[str, Any]:
    """Unpickle a model that DomainBed has saved; one sentence ends the program if it is none."""
    if not source.is_file():
        raise SystemExit(f"there is no file {source}: name the model.pkl that DomainBed has saved.")
    import torch

    try:
        try:
            saved = torch.load(str(source), map_location="cpu", weights_only=False)
        except TypeError:  # torch before 1.13
            saved = torch.load(str(source), map_location="cpu")
    except Exception as error:  # unpickling raises errors of any kind
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise SystemExit(
            f"{source} cannot be read ({reason}): name the model.pkl that DomainBed has saved."
        ) from None
    if not isinstance(saved, dict) or "model_dict" not in saved:
        raise SystemExit(
            f'{source} has no "model_dict": name the model.pkl that DomainBed has saved.'
        )
    return saved


def main(arguments: list[str]) -> None:
    """Convert one file."""
    if "-h" in arguments or "--help" in arguments:
        print(USAGE)
        return
    if len(arguments) not in (1, 2):
        raise SystemExit(USAGE)
    source = Path(arguments[0])
    target = Path(arguments[1]) if len(arguments) == 2 else source.with_suffix(".safetensors")
    if target.suffix != ".safetensors":
        raise SystemExit(f"{target} must end in .safetensors: name another file.")
    saved = load(source)
    write_safetensors(target, saved["model_dict"])
    facts = {name: plain(value) for name, value in saved.items() if name != "model_dict"}
    facts["format"] = FORMAT
    target.with_suffix(".json").write_text(json.dumps(facts, indent=2, sort_keys=True) + "\n")
    print(f"wrote {target} and {target.with_suffix('.json')}")


if __name__ == "__main__":
    main(sys.argv[1:])
