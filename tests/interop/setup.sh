#!/bin/sh
# Makes the environment of the interop tests: a real Phoenix, and chromium where it is missing and can be
# installed. The folder is OTEL_EVALS_INTEROP, or .venv-interop; nothing is done again while the lock stays.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
lock="$root/requirements/interop.lock"
venv=${OTEL_EVALS_INTEROP:-$root/.venv-interop}

if ! cmp -s "$lock" "$venv/interop.lock"; then
    "${PYTHON:-python3}" -m venv "$venv"
    uv=${UV:-$root/.venv/bin/uv}
    if [ -x "$uv" ]; then
        "$uv" pip install --quiet --python "$venv/bin/python" --require-hashes --requirement "$lock"
    else
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$lock"
    fi
    cp "$lock" "$venv/interop.lock"
fi
if ! command -v chromium >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y chromium >/dev/null
fi
command -v chromium >/dev/null || echo "no chromium: the tests that need a browser will be skipped" >&2
