"""Times onnxruntime with the shipped encoder, for the ratio to `cargo bench --bench model`.

Usage: bench_encoder.py [MODEL], one thread, batch 1, median of 200 runs.
`zstd -d models/encoder.onnx.zst` makes the file.
"""

import statistics
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime

MODEL = Path(__file__).resolve().parent.parent / "models" / "encoder.onnx"
RUNS = 200


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else str(MODEL)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    running = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    for n in (16, 32, 64, 128):
        ids = np.random.default_rng(0).integers(5, 3000, (1, n), dtype=np.int64)
        given = {"ids": ids, "mask": np.ones_like(ids)}
        times = []
        for _ in range(RUNS):
            start = time.perf_counter()
            running.run(["logits"], given)
            times.append(time.perf_counter() - start)
        print(f"{n} pieces: {statistics.median(times) * 1e3:.2f} ms")


main()
