# Runs the bash completion like bash and compares its candidates:
#   completion_test.bash SOURCE_FOLDER
set -u
cd "$1" || exit 1
source docs/completions/ddprun.bash
compopt() { :; } # works only while bash is completing
failures=0

# offers EXPECTED WORD... : checks the completions of the last word
offers() {
  local expected="$1"
  shift
  COMP_WORDS=(ddprun "$@")
  COMP_CWORD=$#
  COMPREPLY=()
  _ddprun
  if [[ "${COMPREPLY[*]}" != "${expected}" ]]; then
    echo "after 'ddprun $*': offered '${COMPREPLY[*]}', expected '${expected}'"
    failures=$((failures + 1))
  fi
}

offers "--nproc_per_node" --nproc
offers "--nproc_per_node" --nproc-per
offers "--rdzv_backend --rdzv_endpoint --rdzv_id --rdzv_conf" --rdzv
offers "auto cpu gpu" --nproc_per_node ""
offers "core-complex" --numa_binding = c
offers "node socket exclusive core-complex" --numa_binding =
offers "socket" --numa-binding s
offers "cores" --affinity = c
offers "0 1 2 3" -r ""
offers "--exit_code" -r 3 --max_restarts = 3 --exi
offers "--exit_code" --max_restarts=3 -m --exi
offers "torchrun" --standalone --exit_code t
offers "SIGTERM" --signals_to_handle SIGT
offers "cmake" -m --log_dir cm
offers "README.md" --events READ
offers "CMakeLists.txt" CMakeL
offers "keygen" keyg
offers "" --standalone keyg
offers "" --max-restarts 3 trainer --ex
offers "" -m trainer ""
offers "check" config ch
offers "hostfile torchrun" config convert ""
offers "configs" config check confi
offers "README.md" --config READ
exit "${failures}"
