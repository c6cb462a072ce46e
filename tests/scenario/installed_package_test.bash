#!/usr/bin/env bash
# Uses an installation as projects do that have no CMake, or too old a one:
#   installed_package_test.bash CMAKE BUILD_FOLDER COMPILER [PYTHON]
# PYTHON is the interpreter of scripts/test_python, whose packages include a CMake that is too old.
set -euo pipefail
cmake=$1 build=$2 compiler=$3 python=${4:-}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "$1" >&2; exit 1; }

"$cmake" --install "$build" --prefix "$folder/prefix" >/dev/null

# It does not contain its own path, so it can be moved.
mv "$folder/prefix" "$folder/moved"
documents=$folder/moved/share/doc
export PKG_CONFIG_PATH=$folder/moved/lib/pkgconfig
version=$("$folder/moved/bin/ddprun" --version | cut -d ' ' -f 2)
[ "$(pkg-config --modversion ddprun)" = "$version" ] ||
  fail "pkg-config does not say $version"
cat >"$folder/version.cpp" <<'SOURCE'
#include <ddprun/version.hpp>

#include <cstdio>

#if DDPRUN_VERSION_MAJOR == 0 && DDPRUN_VERSION_MINOR < 1
#error "older than 0.1"
#endif

int main() { std::puts(ddprun::kVersion); }
SOURCE
read -ra flags <<<"$(pkg-config --cflags --libs ddprun)"
"$compiler" -std=c++20 -o "$folder/version" "$folder/version.cpp" "${flags[@]}"
[ "$("$folder/version")" = "$version" ] || fail "<ddprun/version.hpp> does not say $version"

example=$documents/libddprun-dev/examples/consumer/main.cpp
"$compiler" -std=c++20 -o "$folder/consumer" "$example" "${flags[@]}"
"$folder/moved/bin/ddprun" --nproc_per_node=3 "$folder/consumer" >"$folder/output"
grep -F 'the sum of all ranks is 3' "$folder/output" >/dev/null ||
  fail "the example of the package does not run: $(cat "$folder/output")"

# The path of the modules is passed explicitly.
if [ -e "$folder/moved/lib/ddprun/backends/libddprun_gloo.so" ]; then
  source=$(dirname "$0")/module_consumer/main.cpp
  "$compiler" -std=c++20 -o "$folder/module_consumer" "$source" "${flags[@]}"
  "$folder/moved/bin/ddprun" --nproc_per_node=3 "$folder/module_consumer" gloo >"$folder/output"
  grep -F 'the sum of all ranks is 3 over gloo' "$folder/output" >/dev/null ||
    fail "a program that was linked by pkg-config: $(cat "$folder/output")"
fi

# Headers of the sources, which other tests compile.
diff -r "$(dirname "$0")/../../configs" "$documents/ddprun/examples/configs" >&2 ||
  fail "the installed configuration files are others"

if [ -n "$python" ]; then
  old=$("$python" -c 'import cmake; print(cmake.CMAKE_BIN_DIR)')/cmake
  # The message is about the package, not the example's own cmake_minimum_required().
  mkdir "$folder/project"
  printf '%s\n' 'cmake_minimum_required(VERSION 3.22)' 'project(old LANGUAGES CXX)' \
    'find_package(ddprun REQUIRED)' >"$folder/project/CMakeLists.txt"
  if "$old" -S "$folder/project" -B "$folder/project/build" \
    -D CMAKE_PREFIX_PATH="$folder/moved" >"$folder/output" 2>&1; then
    fail "$("$old" --version | head -n 1) is accepted"
  fi
  tr -s ' \n' ' ' <"$folder/output" | grep -F 'ddprun needs CMake 3.23 or newer' >/dev/null ||
    fail "an old CMake is not named: $(cat "$folder/output")"
fi
