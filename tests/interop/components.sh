#!/bin/sh
# Builds the real components of the tests of the gateway: an OpenTelemetry Collector with its Kafka exporter and
# with Jaeger's storage and query API, Helm, actionlint, a Kafka broker, and agents in Go and Java. They come from the
# Go module proxy and Maven Central. What cannot be built here is left out, and its tests are skipped.
# The folder is OTEL_EVALS_INTEROP, or .venv-interop, with -components; nothing is built again while its sources stay.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
sources=$here/components
interop=${OTEL_EVALS_INTEROP:-$here/../../.venv-interop}-components
JAEGER=v1.76.0  # version 2.13.0 of the product; it names the versions of everything else
HELM=v3.18.6
ACTIONLINT=v1.7.12
mkdir -p "$interop/bin"
interop=$(cd "$interop" && pwd)
scratch=$(mktemp -d)
# Compiled without optimisation or debug information, by the same flags, so that common packages are compiled once.
export GOTOOLCHAIN=local CGO_ENABLED=0 GOFLAGS="-buildvcs=false -trimpath" GOBIN="$interop/bin"
LEAN="-gcflags=all=-dwarf=false -N -l"
trap 'rm -rf "$scratch"' EXIT

current() {  # the name of what is built, and its sources: whether it was built from these
    name=$1 && shift
    cat "$0" "$@" | cksum >"$scratch/$name.now"
    cmp -s "$scratch/$name.now" "$interop/$name.built"
}

built() {
    cp "$scratch/$1.now" "$interop/$1.built"
}

without() {
    echo "no $1: the tests that need it will be skipped" >&2
}

collector() {  # inside Jaeger's sources: its packages may be imported from there only
    GOPROXY=$(go env GOPROXY)
    export GOPROXY="${GOPROXY%,direct}"
    found=$(go mod download -json "github.com/jaegertracing/jaeger@$JAEGER" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
    cp -r "$found" "$scratch/jaeger"
    cd "$scratch/jaeger"
    chmod -R u+w .
    sed -i -E '/^replace .* => \.\//d' go.mod
    rm cmd/jaeger/internal/extension/jaegerstorage/*.go
    cp "$sources/jaegerstorage.go" cmd/jaeger/internal/extension/jaegerstorage
    rm internal/storage/v1/factory/*.go  # needs all databases; one type of it is used
    cp "$sources/factory.go" internal/storage/v1/factory
    mkdir cmd/jaeger/tests
    cp "$sources/collector.go" cmd/jaeger/tests
    go build -mod=mod "$LEAN" -ldflags="-s -w" -o "$interop/bin/otelcol" ./cmd/jaeger/tests
}

helm() {
    go install "$LEAN" -ldflags="-s -w" "helm.sh/helm/v3/cmd/helm@$HELM"
}

actionlint() {
    go install "$LEAN" -ldflags="-s -w" "github.com/rhysd/actionlint/cmd/actionlint@$ACTIONLINT"
}

goagent() {
    cp -r "$sources/go" "$scratch/go"
    cd "$scratch/go"
    go build -mod=readonly "$LEAN" -ldflags="-s -w" -o "$interop/bin/goagent" .
}

jars() {  # a pom.xml, and the folder for the libraries that it names
    rm -rf "$2" "$2.part"
    mvn -q -B -f "$1" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory="$2.part"
    mv "$2.part" "$2"
}

kafka() {
    jars "$sources/pom.xml" "$interop/kafka"
}

javaagent() {
    jars "$sources/java/pom.xml" "$interop/java"
    javac -cp "$interop/java/*" -d "$interop/java" "$sources/java/Agent.java"
}

build() {  # a function, the command that it needs, and its sources
    name=$1 needed=$2 && shift 2
    current "$name" "$@" && return
    if command -v "$needed" >/dev/null && timeout 900 sh "$0" "$name" >"$scratch/$name.log" 2>&1; then
        built "$name"
    else
        [ ! -f "$scratch/$name.log" ] || tail -n 5 "$scratch/$name.log" >&2
        without "$name (it needs $needed, and at most 15 minutes)"
    fi
}

if [ $# -gt 0 ]; then  # as a process of its own, which ends at the first command that fails
    "$1"
    exit
fi
{
    build kafka mvn "$sources/pom.xml"
    build javaagent mvn "$sources/java/pom.xml" "$sources/java/Agent.java"
} &
build collector go "$sources/collector.go" "$sources/jaegerstorage.go" "$sources/factory.go"
build helm go
build actionlint go
build goagent go "$sources/go/main.go" "$sources/go/go.mod" "$sources/go/go.sum"
wait
