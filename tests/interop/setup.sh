#!/bin/sh
# Makes the environments of the interop tests: a real Phoenix, a real MLflow, the SDKs of other backends, one for
# each tracing library that otel-evals stands beside, and chromium, Prometheus, Alertmanager, PostgreSQL and Redis
# where they are missing and can be installed; then, by components.sh, what stands around the gateway, and by
# recipes.sh a Zipkin. The folders are OTEL_EVALS_INTEROP, or .venv-interop, and the same with -mlflow, -sdks,
# -components -already-LIBRARY and -setups-NAME; nothing is done again while a lock stays.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
interop=${OTEL_EVALS_INTEROP:-$root/.venv-interop}
uv=${UV:-$root/.venv/bin/uv}

install() {  # a lock, and the folder of the environment that it is for
    cmp -s "$1" "$2/interop.lock" && return
    "${PYTHON:-python3}" -m venv "$2"
    if [ -x "$uv" ]; then
        # Not from here: uv would add the constraints of this project's own lock.
        (cd / && "$uv" pip install --quiet --python "$2/bin/python" --require-hashes --requirement "$1")
    else
        "$2/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$1"
    fi
    cp "$1" "$2/interop.lock"
}

install "$root/requirements/interop.lock" "$interop"
install "$root/requirements/interop-mlflow.lock" "$interop-mlflow"
install "$root/requirements/interop-sdks.lock" "$interop-sdks"
for page in "$root"/docs/already/*.md; do  # each tracing library, with this project
    page=$(basename "$page" .md)
    [ -f "$root/requirements/already-$page.lock" ] || continue
    install "$root/requirements/already-$page.lock" "$interop-already-$page"
    (cd / && "$interop-already-$page/bin/python" -c "import otel_evals" 2>/dev/null) ||
        (cd / && "$uv" pip install --quiet --python "$interop-already-$page/bin/python" --no-deps --editable "$root")
done
for lock in "$root"/requirements/setups-*.lock; do  # other set-ups, several in each environment
    folder=$interop-$(basename "$lock" .lock)
    install "$lock" "$folder"
    (cd / && "$folder/bin/python" -c "import otel_evals" 2>/dev/null) ||
        (cd / && "$uv" pip install --quiet --python "$folder/bin/python" --no-deps --editable "$root")
done
provide() {  # whether it is there, by a command; and the package that has it
    sh -c "$1" >/dev/null 2>&1 && return
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -qq -y "$2" >/dev/null || true
    fi
    sh -c "$1" >/dev/null 2>&1 || echo "no $2: the tests that need it will be skipped" >&2
}

provide "command -v chromium" chromium
provide "command -v prometheus" prometheus
provide "command -v prometheus-alertmanager" prometheus-alertmanager
provide "ls /usr/lib/postgresql/*/bin/initdb" postgresql
provide "command -v redis-server || command -v valkey-server" redis-server
sh "$root/tests/interop/components.sh"
sh "$root/tests/interop/recipes.sh"
