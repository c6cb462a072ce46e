#!/usr/bin/env bash
# Creates the Debian packages of a build folder and checks their content:
#   package_test.bash CPACK BUILD_FOLDER VERSION
# Exits with 77 (skipped) without Debian's tools.
set -euo pipefail
cpack=$1 build=$2 version=$3
for tool in dpkg-deb dpkg-shlibdeps lintian; do
  command -v $tool >/dev/null || exit 77
done

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "$1" >&2; exit 1; }

"$cpack" -G DEB --config "$build/CPackConfig.cmake" -B "$folder" >"$folder/cpack.log" 2>&1 || {
  cat "$folder/cpack.log" >&2
  exit 1
}
architecture=$(dpkg --print-architecture)
program=$folder/ddprun_$version-1_$architecture.deb
development=$folder/libddprun-dev_$version-1_$architecture.deb

# Lists each regular file of a package, and nothing else.
check_files() {
  local package=$1 expected
  expected=$(printf '%s\n' "${@:2}" | sort)
  dpkg-deb -c "$package" | awk '!/^d/ { print $6 }' | sed 's/^\.//' | sort >"$folder/files"
  diff -u <(echo "$expected") "$folder/files" >&2 || fail "$package: other files than expected"
  if dpkg-deb -c "$package" | awk '$2 != "root/root"' | grep .; then
    fail "$package: files of others than root"
  fi
}

check_field() {
  local value
  value=$(dpkg-deb -f "$1" "$2")
  [[ $value =~ $3 ]] || fail "$1: $2 is '$value', not like '$3'"
}

# In optimised builds a program or library is position-independent, has its relocations resolved and
# read-only before it starts, checks its stack and the sizes of buffers, and marks the targets of
# indirect jumps.
check_hardened() {
  local file=$1 fact facts
  if [ "$build_type" = debug ]; then return; fi
  facts=$(readelf -W -h -d -l --dyn-syms "$file")
  for fact in 'Type: +DYN' BIND_NOW GNU_RELRO 'GNU_STACK.* RW ' __stack_chk_fail '_chk@'; do
    grep -E "$fact" <<<"$facts" >/dev/null || fail "$file: not hardened, no '$fact'"
  done
  case $(uname -m) in
    x86_64) fact=endbr64 ;;
    aarch64) fact='bti\b' ;;
    *) return ;;
  esac
  [ "$(objdump -d --section=.text "$file" | grep -c "$fact")" -gt 100 ] ||
    fail "$file: not hardened, few '$fact'"
}

# Debian's own checks. No bug of Debian requested these packages, and the folder of ddprun.pc is not
# specific to an architecture.
check_by_lintian() {
  TMPDIR="$folder" lintian --allow-root --fail-on error,warning --tag-display-limit 0 \
    --suppress-tags initial-upload-closes-no-bugs,pkg-config-unavailable-for-cross-compilation \
    "$1" >"$folder/tags" 2>&1 || {
    cat "$folder/tags" >&2
    fail "$1: lintian finds errors or warnings"
  }
}

# documents PACKAGE: checks the documents of a package.
documents() {
  printf "/usr/share/doc/$1/%s\n" copyright changelog.gz changelog.Debian.gz
}

# A program may use other versions of ddprun's libraries.
check_symbols() {
  local file=$1 leaked
  leaked=$(nm -C "${@:2}" --defined-only "$file" 2>/dev/null |
    grep -E '(^|[^_[:alnum:]])(boost|spdlog|fmt|nlohmann|CLI)(::|_)' | head -n 3 || true)
  [ -z "$leaked" ] || fail "$file: has symbols of other libraries: $leaked"
}

include=/usr/include/ddprun
package=/usr/lib/cmake/ddprun
source=$(cd "$(dirname "$0")/../.." && pwd)
mapfile -t configs < <(cd "$source" && ls configs/*)
# shellcheck disable=SC2046 # several files
check_files "$program" /usr/bin/ddprun /usr/libexec/ddprun/ddprun-preflight \
  /usr/libexec/ddprun/torchrun \
  /usr/libexec/ddprun/torch.distributed.launch \
  /usr/share/man/man1/ddprun.1.gz $(documents ddprun) \
  "${configs[@]/#//usr/share/doc/ddprun/examples/}" \
  /usr/share/bash-completion/completions/ddprun /usr/share/zsh/site-functions/_ddprun
mapfile -t headers < <(cd "$source" &&
  ls {rendezvous,worker_runtime}/include/ddprun/*.hpp | xargs -n 1 basename)
# Sources that a user's project compiles with its own LibTorch.
mapfile -t libtorch < <(cd "$source" && ls worker_runtime/libtorch/*.[ch]pp)
mapfile -t examples < <(cd "$source/tests/scenario" && ls {consumer,libtorch_consumer}/*)
mapfile -t torch_headers < <(cd "$source/worker_runtime/libtorch/include/ddprun" &&
  ls torch.hpp torch/*.hpp)
build_type=$(sed -n 's/^CMAKE_BUILD_TYPE:[A-Z]*=//p' "$build/CMakeCache.txt" |
  tr '[:upper:]' '[:lower:]')
# shellcheck disable=SC2046
check_files "$development" $include/version.hpp "${headers[@]/#/$include/}" \
  "${torch_headers[@]/#/$include/}" "${examples[@]/#//usr/share/doc/libddprun-dev/examples/}" \
  "${libtorch[@]/#//usr/share/ddprun/}" $package/{ddprunLibtorch,find_libtorch}.cmake \
  /usr/lib/libddprun_{rendezvous,worker_runtime}.a \
  $package/ddprun{Config,ConfigVersion,Targets,Targets-"$build_type"}.cmake \
  /usr/lib/pkgconfig/ddprun.pc $(documents libddprun-dev)
for module in "$folder"/ddprun-*.deb; do
  if [ ! -e "$module" ]; then continue; fi
  name=$(basename "$module" | sed 's/^ddprun-\([a-z]*\)_.*/\1/')
  # shellcheck disable=SC2046
  check_files "$module" "/usr/lib/ddprun/backends/libddprun_$name.so" $(documents "ddprun-$name")
  library="lib(gloo|mpich|openmpi)"
  # NCCL is found at run time and may come from any package.
  if [ "$name" = nccl ]; then library=libc6; fi
  check_field "$module" Depends "$library"
  dpkg-deb -x "$module" "$folder/modules"
  check_hardened "$folder/modules/usr/lib/ddprun/backends/libddprun_$name.so"
  check_symbols "$folder/modules/usr/lib/ddprun/backends/libddprun_$name.so" -D
done

for file in "$folder"/*.deb; do
  check_by_lintian "$file"
done
check_field "$program" Version "^$version-1$"
check_field "$program" Depends 'libc6 .*libssl3.*libstdc\+\+6'
check_field "$program" Maintainer ddprun
check_field "$program" Description '^Launcher and elastic agent for'
check_field "$development" Depends zlib1g-dev
check_field "$development" Description '^Worker runtime for'
check_field "$development" Section libdevel

dpkg-deb -x "$development" "$folder/development"
for library in rendezvous worker_runtime; do
  archive=$folder/development/usr/lib/libddprun_$library.a
  nm -C "$archive" 2>/dev/null | grep 'ddprun::' >/dev/null || fail "$archive: no symbols"
  check_symbols "$archive"
done

dpkg-deb -x "$program" "$folder/root"
check_hardened "$folder/root/usr/bin/ddprun"
# Only TLS to etcd needs it, and loading it would slow each start.
if readelf -d "$folder/root/usr/bin/ddprun" | grep libssl; then
  fail "the packaged program loads libssl at each start"
fi
check_hardened "$folder/root/usr/libexec/ddprun/ddprun-preflight"
"$folder/root/usr/bin/ddprun" --version | grep -F "$version" >/dev/null ||
  fail "the packaged program is not $version"
"$folder/root/usr/libexec/ddprun/torchrun" --help | grep -F 'Usage: torchrun' >/dev/null ||
  fail "the packaged link torchrun does not lead to the program"
"$folder/root/usr/bin/ddprun" --preflight --nproc_per_node=2 --no_python /bin/true ||
  fail "the packaged program does not run"
