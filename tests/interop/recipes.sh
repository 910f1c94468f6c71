#!/bin/sh
# Fetches the Zipkin of the recipes' tests by Maven, which takes seconds; `recipes.sh loki` builds a Loki from its
# Go modules, which takes some seven minutes and is done on request only. Their tests are skipped without them.
# The folder is that of components.sh; nothing is done again while the version stays.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
interop=${OTEL_EVALS_INTEROP:-$here/../../.venv-interop}-components
LOKI=v3.7.8
mkdir -p "$interop/bin"
interop=$(cd "$interop" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

loki() {
    export GOTOOLCHAIN=local CGO_ENABLED=0 GOFLAGS=-buildvcs=false
    GOPROXY=$(go env GOPROXY)
    export GOPROXY="${GOPROXY%,direct}"
    module=github.com/grafana/loki/v3
    found=$(go mod download -json "$module@$LOKI" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
    cd "$scratch"
    install -m 644 "$found/go.mod" "$found/go.sum" .  # its maintainers' versions and checksums
    go mod edit -module=loki-build "-require=$module@$LOKI"
    sed -i -E '/^replace .* => \.\//d' go.mod
    printf '//go:build tools\n\npackage tools\n\nimport _ "%s/cmd/loki"\n' "$module" >tools.go
    go build -mod=mod -trimpath -ldflags="-s -w" -o "$interop/bin/loki" "$module/cmd/loki"
}

zipkin() {
    rm -rf "$interop/zipkin"
    mvn -q -B -f "$here/components/zipkin.xml" \
        org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory="$interop/zipkin.part" >"$scratch/log" 2>&1 &&
        mv "$interop/zipkin.part" "$interop/zipkin"
}

if [ "${1:-}" = loki ]; then
    loki
    exit
fi
version=$(sed -n 's/.*<version>\([0-9.]*\.[0-9]*\)<.*/\1/p' "$here/components/zipkin.xml")
[ -f "$interop/zipkin/zipkin-server-$version-exec.jar" ] || zipkin ||
    echo "no zipkin (it needs mvn): its tests will be skipped" >&2
