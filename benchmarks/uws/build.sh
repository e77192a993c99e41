#!/bin/sh
# Builds the uWebSockets peer into ./build: the library comes with the PyPI package `socketify`
# (needs pip, a C++ compiler and libuv1), everything else is server.cpp.
set -eu
cd "$(dirname "$0")"
mkdir -p build
version=0.0.31
sha256=7502bed5b382e75f04ea3c6d6b53b76f27bb8653740db92e3f2b55fab388df20
if [ ! -f build/libsocketify_linux_amd64.so ]; then
  printf 'socketify==%s --hash=sha256:%s\n' "$version" "$sha256" > build/requirements.txt
  python3 -m pip download --quiet --no-deps --no-binary :all: \
    --require-hashes --dest build --requirement build/requirements.txt
  tar xzf "build/socketify-$version.tar.gz" -C build --strip-components 3 \
    "socketify-$version/src/socketify/libsocketify_linux_amd64.so"
fi
c++ -std=c++17 -O2 -Wall -Wextra -o build/server server.cpp \
  -L build -l:libsocketify_linux_amd64.so -Wl,-rpath,'$ORIGIN'
echo "built $(pwd)/build/server"
