#!/usr/bin/env bash
# From the labelled lines to the shipped files: installs what is pinned, then trains, exports and measures.
#
#   training/run.sh [STEP] [OPTION...]
#
# Without STEP all of it: the encoder, then the n-gram heads and the fusion. `heads` is the second part
# alone; `training/run.sh all --help` tells the steps and options of the first.
#
# TRAINING_VENV is where the Python packages go; MEMFW_DEV_DATA is the folder of lines that only measure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

step=everything
if [ $# -gt 0 ] && [[ $1 != -* ]]; then
  step=$1
  shift
fi
# Authors whose scenarios were there when the first of the two runs for authority began.
FIRST_AUTHORS="c d e g j l m n o q r s t u"
SECOND_RUN="--set epochs=2 --set seed=20261124 --set rate=8e-5 --set output_rate=5e-4"
recipe=(cargo run --quiet --release --example train-heads --)

heads() {
  mkdir -p made
  "${recipe[@]}" train --data data data/written --out ../models/heads.bin
  # Scores by heads that saw neither the author nor the source of a line: what the fusion is fitted to.
  "${recipe[@]}" folds --data data data/written --dev data/heldout ${MEMFW_DEV_DATA:+"$MEMFW_DEV_DATA"} \
    --out made/folds.jsonl | tee made/heads.txt
  "${recipe[@]}" fuse --heads made/folds.jsonl --encoder made/logits.jsonl --out ../models/fusion.toml |
    tee made/fusion.txt
  for part in rules likeness heads encoder sentences; do
    "${recipe[@]}" fuse --heads made/folds.jsonl --encoder made/logits.jsonl --without "$part" \
      >"made/without-$part.txt"
  done
  if [ -e ../models/encoder.onnx ]; then "${recipe[@]}" pack ../models/encoder.onnx; fi
  digests
}

digests() {
  (cd ../models && sha256sum authority.bin authority.onnx.zst authority.toml encoder.onnx.zst fusion.toml \
    heads.bin vocabulary.txt >DIGESTS)
}

# The third output: layers above those of the shipped encoder, which stays as it is; then the context head and
# the fusion. The second run goes on where the first one ends, with the authors that came later.
authority() {
  local train=("$venv/bin/python" -m encoder.authority train --fold "${recipe[*]} fold")
  "${train[@]}" --made made/authority-1 --authors $FIRST_AUTHORS --set epochs=4 --set stop=3
  "${train[@]}" --made made/authority-2 --begin made/authority-1/authority.pt $SECOND_RUN
  "$venv/bin/python" -m encoder.authority export --made made/authority-2 --fold "${recipe[*]} fold"
  "${recipe[@]}" pack ../models/authority.onnx
  rm ../models/authority.onnx
  digests
  "$venv/bin/python" -m encoder.authority logits --made made/authority-2 --fold "${recipe[*]} fold"
  authority_heads
}

authority_heads() {
  mkdir -p made
  "${recipe[@]}" authority --data data/scenarios --models ../models --logits made/authority-2/authority-logits.jsonl |
    tee made/authority.txt
  digests
}

case $step in
  heads) heads && exit ;;
  authority-heads) authority_heads && exit ;;
esac

venv=${TRAINING_VENV:-made/venv}
if [ ! -e "$venv/ready" ]; then
  python3.11 -m venv "$venv"
  "$venv/bin/pip" install --quiet --require-hashes --requirement requirements.txt
  "$venv/bin/pip" install --quiet --require-hashes --no-deps --requirement base.txt
  touch "$venv/ready"
fi

options=(--fold "${recipe[*]} fold")
if [ -n "${MEMFW_DEV_DATA:-}" ]; then
  options+=(--dev "$MEMFW_DEV_DATA")
fi
# The same run twice gives the same weights on the same machine.
export CUBLAS_WORKSPACE_CONFIG=:4096:8 PYTHONHASHSEED=0 TOKENIZERS_PARALLELISM=false
if [ "$step" = authority ]; then
  authority
  exit
fi
"$venv/bin/python" -m encoder "${step/everything/all}" "${options[@]}" "$@"
if [ "$step" = everything ]; then
  heads
  authority
fi
