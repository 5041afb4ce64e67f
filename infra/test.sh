#!/usr/bin/env bash
# Everything that must hold, in the order in which it fails fastest. Arguments go to pytest.
set -uo pipefail
cd "$(dirname "$0")/.."
RUN=.venv/bin
failed=()
stage() {
    local name="$1" from=$SECONDS; shift
    echo "── $name"
    if "$@"; then echo "   ok, $((SECONDS - from)) s"; else echo "   failed, $((SECONDS - from)) s"; failed+=("$name"); fi
}

stage "lint" $RUN/ruff check -q .
stage "format" $RUN/ruff format --check -q .
stage "types" $RUN/mypy
stage "import contracts" $RUN/lint-imports
stage "generated schemas" $RUN/python -m headrace_schemas.generate --check
stage "unit, loop and contract tests" $RUN/pytest -q -p no:cacheprovider tests/unit tests/loop tests/contract "$@"
stage "integration tests (real brokers, PostgreSQL, S3)" $RUN/pytest -q -p no:cacheprovider tests/integration "$@"
stage "end to end (real vLLM, one training step, one swap)" $RUN/pytest -q -p no:cacheprovider tests/e2e "$@"

echo
if [ ${#failed[@]} -eq 0 ]; then echo "All stages passed in $SECONDS s."; exit 0; fi
echo "Failed: ${failed[*]}" >&2
exit 1
