# Completion of ddprun for bash: its options up to the program's name, then the program, then files.
_ddprun() {
  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD - 1]}"
  local flags="--module --no_python --run_path --virtual_local_rank --use_env --standalone --pass_local_rank --share_gpu --preflight --ssh
    --dry_run --help --version"
  local options="--nproc_per_node --role --numa_binding --start_method --max_restarts --monitor_interval
    --signals_to_handle --shutdown_timeout --log_dir --redirects --tee --local_ranks_filter --duplicate_stdout_filters
    --duplicate_stderr_filters --log_line_prefix_template --logs_specs --event_log_handler --nnodes --rdzv_backend
    --rdzv_endpoint --rdzv_id --rdzv_conf --node_rank --master_addr --master_port --local_addr --affinity --prefix --ranks_filter --stdin
    --exit_code --restart_window --agent_store --events --omp_num_threads --stacks --config --node_name --secret_file --security
    --print_completion"
  # An '=' is a word of its own where bash breaks words at it.
  local valued="${previous}"
  if [[ "${current}" == "=" ]]; then
    current=""
  elif [[ "${previous}" == "=" ]]; then
    valued="${COMP_WORDS[COMP_CWORD - 2]}"
  fi

  if [[ "${COMP_WORDS[1]}" == "config" && COMP_CWORD -le 3 && COMP_CWORD -ge 2 ]]; then
    local commands="check schema convert"
    if [[ "${COMP_WORDS[2]}" == "convert" && COMP_CWORD -eq 3 ]]; then commands="hostfile torchrun"; fi
    mapfile -t COMPREPLY < <(compgen -W "${commands}" -- "${current}")
    if [[ "${COMP_WORDS[2]}" == "check" && COMP_CWORD -eq 3 ]]; then
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -f -- "${current}")
    fi
    return
  fi

  local i word
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="${COMP_WORDS[i]//-/_}"
    case "${COMP_WORDS[i]}" in
      -r | -t) ((i++)) ;;
      --*=*) ;;
      --*)
        if [[ " ${options//[$'\n']/ } " == *" --${word#__} "* ]]; then
          ((i++))
          if [[ "${COMP_WORDS[i]}" == "=" ]]; then ((i++)); fi
        fi
        ;;
      -* | =) ;;
      *) # The program stands here: the rest is its own.
        compopt -o default
        COMPREPLY=()
        return
        ;;
    esac
  done

  local words=""
  case "${valued//-/_}" in
    __nproc_per_node) words="auto cpu gpu" ;;
    __numa_binding) words="node socket exclusive core-complex" ;;
    __start_method) words="spawn fork forkserver" ;;
    __rdzv_backend) words="static c10d etcd" ;;
    __affinity) words="none cores exclusive node socket l3" ;;
    __exit_code) words="torchrun worker" ;;
    __agent_store) words="on off" ;;
    __omp_num_threads) words="auto" ;;
    __print_completion) words="bash zsh" ;;
    __prefix) words="none" ;;
    __stdin) words="auto none" ;;
    __security) words="open" ;;
    __stacks) words="never kill stop" ;;
    __event_log_handler) words="null" ;;
    __signals_to_handle) words="SIGTERM SIGINT SIGHUP SIGQUIT SIGUSR1 SIGUSR2" ;;
    __redirects | __tee | _r | _t) words="0 1 2 3" ;;
    __log_dir)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -d -- "${current}")
      return
      ;;
    __events | __config | __secret_file)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -f -- "${current}")
      return
      ;;
  esac
  if [[ -n "${words}" ]]; then
    mapfile -t COMPREPLY < <(compgen -W "${words}" -- "${current}")
  elif [[ "${current}" == -* ]]; then
    word="${current:2}" # Dashes are as good as underscores.
    mapfile -t COMPREPLY < <(compgen -W "-h -m -r -t ${flags} ${options}" -- "${current:0:2}${word//-/_}")
  else
    compopt -o filenames
    if ((COMP_CWORD == 1)); then words="config keygen"; fi
    mapfile -t COMPREPLY < <(
      compgen -W "${words}" -- "${current}"
      compgen -f -- "${current}"
      compgen -c -- "${current}"
    )
  fi
}
complete -F _ddprun ddprun
