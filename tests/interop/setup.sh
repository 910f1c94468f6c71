#!/bin/sh
# Makes the environments of the interop tests: a real Phoenix and a real MLflow, and chromium and PostgreSQL where
# they are missing and can be installed. The folders are OTEL_EVALS_INTEROP, or .venv-interop, and the same with
# -mlflow; nothing is done again while a lock stays.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
interop=${OTEL_EVALS_INTEROP:-$root/.venv-interop}

install() {  # a lock, and the folder of the environment that it is for
    cmp -s "$1" "$2/interop.lock" && return
    "${PYTHON:-python3}" -m venv "$2"
    uv=${UV:-$root/.venv/bin/uv}
    if [ -x "$uv" ]; then
        "$uv" pip install --quiet --python "$2/bin/python" --require-hashes --requirement "$1"
    else
        "$2/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$1"
    fi
    cp "$1" "$2/interop.lock"
}

install "$root/requirements/interop.lock" "$interop"
install "$root/requirements/interop-mlflow.lock" "$interop-mlflow"
if ! command -v chromium >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y chromium >/dev/null
fi
if ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y postgresql >/dev/null || true
fi
command -v chromium >/dev/null || echo "no chromium: the tests that need a browser will be skipped" >&2
