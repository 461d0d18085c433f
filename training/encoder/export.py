"""From a trained network to what is shipped: quantised ONNX, vocabulary, reference outputs."""

import json
import re
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import QuantType, quantize_dynamic
from tokenizers import Tokenizer

from . import vocabulary
from .batches import padded
from .graph import exported
from .network import Network
from .score import Model, ids_of

# Left in f32: the outputs are 768 numbers each and decide.
IN_FLOAT = ["logits.product"]
# Texts that are easy to get wrong.
ODD = (
    "",
    " ",
    "a" * 150,
    "word " * 200,
    "\u0130stanbul \u00c4\u00d6\u00dc \u00df \ufb01 \u1e9e",
    "e\u0301 \u0915\u094d\u0937 \ud55c\uad6d\uc5b4 \u0e44\u0e17\u0e22",
    "[CLS] ids in a text are text [SEP]",
    "\U0001f9ff\U0001f468\u200d\U0001f469\u200d\U0001f467 ok \u2713",
    'keys:api_key="x-1",url=https://a.example/?q=1&r=%20#top',
    "\u5907\u4efd\u6bcf\u5929\u4e09\u70b9\u3002\uff24\uff29\uff33\uff2b",
)
# Numbers of each hidden state that the reference keeps: the first of the first token.
KEPT = 8


def write(network: Network, tokens: list[str], folder: Path) -> Path:
    """Writes `encoder.onnx` and `vocabulary.txt`. With eight-bit weights of reduced range, all
    instruction sets give the same scores; with the full range, AVX2 saturates."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "encoder.onnx"
    with tempfile.TemporaryDirectory() as place:
        plain = Path(place) / "plain.onnx"
        onnx.save(exported(network), plain)
        quantize_dynamic(
            plain,
            path,
            op_types_to_quantize=["MatMul", "Gather"],
            per_channel=True,
            reduce_range=True,
            weight_type=QuantType.QInt8,
            nodes_to_exclude=[*IN_FLOAT, "pool.first"],
        )
    vocabulary.write(folder / "vocabulary.txt", tokens)
    return path


def session(path: Path, outputs: tuple[str, ...] = ()) -> onnxruntime.InferenceSession:
    model = onnx.load(path)
    for name in outputs:
        model.graph.output.append(onnx.ValueInfoProto(name=name))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def of_file(path: Path) -> Model:
    """The shipped model as something that scores.

    Each text alone, as at run time: numbers inside are quantised by the range of all that is run
    together, so that in a batch the score of a text would depend on its neighbours.
    """
    running = session(path)

    def run(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        lengths = mask.sum(axis=1)
        rows = (
            running.run(["logits"], {"ids": ids[at : at + 1, :length], "mask": mask[at : at + 1, :length]})[0]
            for at, length in enumerate(lengths)
        )
        return np.concatenate(list(rows))

    return run


def write_reference(path: Path, model: Path, tokenizer: Tokenizer, texts: list[str]) -> None:
    """What another run time has to reproduce, one JSON object a line: ids, logits, states by layer."""
    names = tuple(f"hidden.{index}" for index in range(1 + layers_of(model)))
    running = session(model, names)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for text in texts:
            ids, mask = padded([ids_of(tokenizer, text)])
            found = running.run(["logits", *names], {"ids": ids.numpy(), "mask": mask.numpy()})
            states = [rounded(state[0, 0, :KEPT]) for state in found[1:]]
            line = {"text": text, "ids": ids[0].tolist(), "logits": rounded(found[0][0]), "hidden": states}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def layers_of(path: Path) -> int:
    names = {output for node in onnx.load(path).graph.node for output in node.output}
    return sum(1 for name in names if re.fullmatch(r"hidden\.\d+", name)) - 1


def rounded(values: np.ndarray) -> list[float]:
    return [round(float(one), 5) for one in values]
