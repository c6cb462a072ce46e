#!/usr/bin/env bash
# A static ddprun runs where the C library is glibc 2.34 or later, and needs no other library but
# those of the C library and of GCC's unwinder.
#   static_test.bash SOURCE_FOLDER BUILD_FOLDER
set -euo pipefail
source="$1"
build="$2"
newest=GLIBC_2.34

cmake --preset release -S "$source" -B "$build" -D DDPRUN_STATIC=ON -D BUILD_TESTING=OFF \
  -D DDPRUN_GLOO=OFF -D DDPRUN_MPI=OFF >"$build.log" || { cat "$build.log"; exit 1; }
cmake --build "$build" --target ddprun -- --quiet
program="$build/bin/ddprun"

fail() {
  echo "$1" >&2
  exit 1
}

needed="$(objdump -T "$program" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)"
[ "$(printf '%s\n' "$needed" "$newest" | sort -V | tail -n 1)" = "$newest" ] ||
  fail "ddprun needs $needed, not $newest"
others="$(objdump -p "$program" | awk '$1 == "NEEDED" { print $2 }' |
  grep -v '^ld-linux\|^libc\.so\|^libm\.so\|^libgcc_s\.so' || true)"
[ -z "$others" ] || fail "ddprun needs $others"
output="$("$program" --nproc_per_node=2 --no_python echo worked 2>"$build.log")"
[ "$(grep -c worked <<<"$output")" = 2 ] ||
  fail "$(cat "$build.log")"
